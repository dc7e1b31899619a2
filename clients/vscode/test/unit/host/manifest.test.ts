import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { dirname, extname, join } from "node:path";
import test from "node:test";

const manifest = JSON.parse(readFileSync("package.json", "utf8"));
const { contributes } = manifest;
const sources = ["src/extension.ts", ...readdirSync("src/host").map((name) => join("src/host", name))]
  .map((path) => readFileSync(path, "utf8"))
  .join("\n");

const commands: string[] = contributes.commands.map(({ command }: { command: string }) => command);

test("what a cloned project could abuse cannot be set by it", () => {
  for (const name of ["program", "arguments", "environment", "permissionMode"]) {
    assert.equal(contributes.configuration.properties[`pi.${name}`].scope, "machine", name);
  }
});

test("every setting that is read is declared", () => {
  const declared = Object.keys(contributes.configuration.properties).map((name) => name.replace(/^pi\./, ""));
  const settings = readFileSync("src/host/settings.ts", "utf8");
  const read = [...settings.matchAll(/\bget(?:<[^(]*>)?\("(\w+)"/g)].map(([, name]) => name);
  assert.deepEqual(
    [...read, ...[...settings.matchAll(/get<[^>]*>\[\]>\("(\w+)"/g)].map(([, n]) => n)].filter(
      (name) => !declared.includes(name ?? ""),
    ),
    [],
  );
  assert.ok(read.length >= 5);
});

test("menus, keys, steps of the walkthrough and welcome texts name commands that exist", () => {
  const named = new Set<string>();
  for (const items of Object.values(contributes.menus) as { command: string }[][]) {
    for (const { command } of items) named.add(command);
  }
  for (const { command } of contributes.keybindings) named.add(command);
  const texts = JSON.stringify([contributes.walkthroughs, contributes.viewsWelcome]);
  for (const [, command] of texts.matchAll(/\(command:(pi\.[\w.]+)\)/g)) named.add(command ?? "");
  const own = contributes.views.pi.map(({ id }: { id: string }) => `${id}.focus`);
  assert.deepEqual(
    [...named].filter((command) => !commands.includes(command) && !own.includes(command)),
    [],
  );
});

test("titles and texts of the walkthrough are words alone, as VS Code draws no code in them", () => {
  for (const { steps } of contributes.walkthroughs) {
    for (const { title, description } of steps) assert.doesNotMatch(`${title} ${description}`, /`/);
  }
});

test("every command of the palette has a key, or a place in a menu", () => {
  const keys = contributes.keybindings.map(({ command }: { command: string }) => command);
  const menus = Object.values(contributes.menus).flat() as { command: string }[];
  const setup = ["pi.install", "pi.walkthrough", "pi.removeKey", "pi.reopen"];
  const reached = new Set([...keys, ...menus.map(({ command }) => command), ...setup]);
  assert.deepEqual(
    commands.filter((command) => !reached.has(command)),
    [],
  );
});

test("no key is given twice", () => {
  const keys = contributes.keybindings.map(({ key }: { key: string }) => key);
  assert.equal(new Set(keys).size, keys.length);
});

test("the least version of VS Code is the one of the types", () => {
  assert.equal(manifest.engines.vscode, `^${manifest.devDependencies["@types/vscode"]}`);
  assert.match(
    readFileSync("README.md", "utf8"),
    new RegExp(`VS Code ${manifest.engines.vscode.slice(1, -2)}`),
  );
});

test("everything is pinned, and nothing is installed with the extension", () => {
  assert.equal(manifest.dependencies, undefined);
  for (const [name, version] of Object.entries(manifest.devDependencies)) {
    assert.match(version as string, /^\d+\.\d+\.\d+$/, name);
  }
});

test("it runs where the files are, also in a workspace that is not trusted, and there it asks", () => {
  assert.deepEqual(manifest.extensionKind, ["workspace"]);
  assert.equal(manifest.capabilities.untrustedWorkspaces.supported, "limited");
  assert.match(sources, /workspace\.isTrusted/);
});

test("the pictures of the README are in the package", () => {
  const pictures = [...readFileSync("README.md", "utf8").matchAll(/(?:\]\(|src=")(media\/[^)"]+)/g)];
  assert.ok(pictures.length > 0);
  const packed = readFileSync(".vscodeignore", "utf8").split("\n");
  for (const [, path = ""] of pictures) {
    assert.ok(packed.includes(`!${path}`) || packed.includes(`!${dirname(path)}/*${extname(path)}`), path);
  }
});
