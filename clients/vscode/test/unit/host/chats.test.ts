import assert from "node:assert/strict";
import test from "node:test";
import type { AgentEventParams, SessionState } from "../../../src/generated/protocol";
import { Chat, type Surface } from "../../../src/host/chats";
import type { Picture } from "../../../src/host/sessions";
import type { HostMessage } from "../../../src/shared/messages";

const NOTHING = () => ({ permissions: [], readOnly: false });

function stage(): { chat: Chat; posted: HostMessage[]; drawn: () => string[] } {
  const posted: HostMessage[] = [];
  const surface = {
    webview: { postMessage: async (message: HostMessage) => posted.push(message) > 0 },
    visible: true,
    isTab: false,
    reveal: () => undefined,
    setTitle: () => undefined,
  } as unknown as Surface;
  const drawn = () =>
    posted.map((message) => {
      if (message.type === "session") return `session ${message.session?.messages.lastSeq}`;
      if (message.type === "events") return `events ${message.events.map(({ seq }) => seq).join()}`;
      return message.type;
    });
  return { chat: new Chat(surface), posted, drawn };
}

function event(seq: number): AgentEventParams {
  return { sessionId: "s", seq, event: { type: "turn_start" } };
}

function picture(lastSeq: number): Picture {
  return {
    messages: { messages: [], entryIds: [], hasMore: false, lastSeq },
    state: {} as SessionState,
    checkpoints: [],
  };
}

function deferred(): { promise: Promise<Picture>; resolve: (picture: Picture) => void } {
  let resolve: (picture: Picture) => void = () => undefined;
  const promise = new Promise<Picture>((settle) => {
    resolve = settle;
  });
  return { promise, resolve };
}

const tick = () => new Promise((resolve) => setImmediate(resolve));

test("a page is posted nothing before it listens, and then its session first", async () => {
  const { chat, drawn } = stage();
  chat.post({ type: "focus" });
  chat.hear(event(1));
  assert.deepEqual(drawn(), []);
  chat.begin();
  await chat.draw("s", async () => picture(1), NOTHING);
  chat.catchUp();
  assert.deepEqual(drawn(), ["session 1", "focus"]);
});

test("events that come while the picture is taken follow it, without those that are in it", async () => {
  const { chat, drawn } = stage();
  chat.begin();
  const taken = deferred();
  const drawing = chat.draw("s", () => taken.promise, NOTHING);
  for (const seq of [4, 5, 6, 7]) chat.hear(event(seq));
  taken.resolve(picture(5));
  await drawing;
  chat.hear(event(8));
  await tick();
  assert.deepEqual(drawn(), ["session 5", "events 6,7", "events 8"]);
});

test("of two pictures at once the later one counts, and no event is lost or doubled", async () => {
  const { chat, drawn } = stage();
  chat.begin();
  const [first, second] = [deferred(), deferred()];
  const drawing = [chat.draw("s", () => first.promise, NOTHING)];
  chat.hear(event(3));
  drawing.push(chat.draw("s", () => second.promise, NOTHING));
  chat.hear(event(4));
  second.resolve(picture(3));
  await drawing[1];
  first.resolve(picture(2));
  await drawing[0];
  await tick();
  assert.deepEqual(drawn(), ["session 3", "events 4"]);
});

test("a picture that cannot be taken does not hold back the events after it", async () => {
  const { chat, drawn } = stage();
  chat.begin();
  await assert.rejects(
    chat.draw("s", () => Promise.reject(new Error("gone")), NOTHING),
    /gone/,
  );
  chat.hear(event(1));
  await tick();
  assert.deepEqual(drawn(), ["events 1"]);
});

test("events that arrive together are posted together, and before what is posted after them", async () => {
  const { chat, drawn } = stage();
  chat.begin();
  for (const seq of [1, 2, 3]) chat.hear(event(seq));
  chat.post({ type: "focus" });
  chat.hear(event(4));
  await tick();
  assert.deepEqual(drawn(), ["events 1,2,3", "focus", "events 4"]);
});
