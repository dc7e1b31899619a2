/**
 * The connection to a daemon: typed requests, notifications and answers over its stdin and stdout.
 *
 * Owns what waits for an answer: when the connection ends, all of it fails with a `DaemonGone`. Starting the
 * process is `daemon.ts`'s; what the messages mean is everybody else's.
 */
import {
  type CancellationToken,
  createMessageConnection,
  Emitter,
  ErrorCodes,
  type Event,
  type Message,
  type MessageConnection,
  ResponseError,
  StreamMessageReader,
  StreamMessageWriter,
} from "vscode-jsonrpc/node";
import type {
  ClientNotifications,
  ClientRequests,
  DaemonNotifications,
  DaemonRequests,
  ErrorData,
} from "../generated/protocol";
import { DaemonGone, errorText, Refusal } from "./errors";

/** A method of `DaemonRequests`, and what answers it. */
export type Answerer<M extends keyof DaemonRequests> = (
  params: DaemonRequests[M]["params"],
  token: CancellationToken,
) => Promise<DaemonRequests[M]["result"]>;

/** One connection, from its first byte to its end. */
export class Wire {
  readonly #connection: MessageConnection;
  readonly #pending = new Set<(gone: DaemonGone) => void>();
  readonly #ended = new Emitter<DaemonGone>();
  #gone: DaemonGone | undefined;

  /** Speak over these streams; `onFault` hears of what does not fit the framing, which ends the connection. */
  constructor(
    input: NodeJS.ReadableStream,
    output: NodeJS.WritableStream,
    onFault: (message: string) => void,
  ) {
    const reader = new StreamMessageReader(input);
    this.#connection = createMessageConnection(
      reader,
      new Writer(output, () => this.end("its input was closed")),
    );
    const fault = (what: string) => {
      if (this.#gone) return;
      onFault(what);
      // Where the next message begins is not known any more.
      this.end(what);
    };
    reader.onError((error) => fault(`it wrote what is no message (${error.message})`));
    input.once("data", (first: Buffer) => {
      // What never has the end of a header would be read, and kept, for ever.
      if (!isBeginning(first)) fault("what it writes is no message");
    });
    this.#connection.onClose(() => this.end("its output ended"));
    this.#connection.listen();
  }

  /** The connection is over. Fired once. */
  get onEnd(): Event<DaemonGone> {
    return this.#ended.event;
  }

  /** Ask the daemon. Fails with a `Refusal` or a `DaemonGone`; `token` cancels the request. */
  call<M extends keyof ClientRequests>(
    method: M,
    params: ClientRequests[M]["params"],
    token?: CancellationToken,
  ): Promise<ClientRequests[M]["result"]> {
    if (this.#gone) return Promise.reject(this.#gone);
    return new Promise((resolve, reject) => {
      this.#pending.add(reject);
      const sent =
        token === undefined
          ? this.#connection.sendRequest<ClientRequests[M]["result"]>(method, params ?? {})
          : this.#connection.sendRequest<ClientRequests[M]["result"]>(method, params ?? {}, token);
      sent
        .then(resolve, (error: unknown) => reject(this.#translated(error)))
        .finally(() => this.#pending.delete(reject));
    });
  }

  /** Tell the daemon. What can no longer be told is dropped: nobody waits for it. */
  tell<M extends keyof ClientNotifications>(method: M, params: ClientNotifications[M]): void {
    if (this.#gone) return;
    void this.#connection.sendNotification(method, params ?? {});
  }

  /** Answer a kind of question. An error counts as cancelled, and its message is told to the daemon. */
  answers<M extends keyof DaemonRequests>(method: M, answerer: Answerer<M>): void {
    this.#connection.onRequest(method, (params: DaemonRequests[M]["params"], token: CancellationToken) =>
      answerer(params, token).catch(
        (error: unknown) => new ResponseError(ErrorCodes.InternalError, errorText(error)),
      ),
    );
  }

  /** Hear a kind of notification. */
  hears<M extends keyof DaemonNotifications>(
    method: M,
    listener: (params: DaemonNotifications[M]) => void,
  ): void {
    this.#connection.onNotification(method, listener);
  }

  /** End the connection: all that waits fails with `reason`. */
  end(reason: string): void {
    if (this.#gone) return;
    this.#gone = new DaemonGone(`pi-rpc is gone: ${reason}`);
    for (const fail of this.#pending) fail(this.#gone);
    this.#pending.clear();
    this.#connection.dispose();
    this.#ended.fire(this.#gone);
  }

  #translated(error: unknown): Error {
    if (this.#gone) return this.#gone;
    if (error instanceof ResponseError) {
      const data = error.data as ErrorData | undefined;
      return new Refusal(error.message, data?.kind ?? "internalError", data);
    }
    return error instanceof Error ? error : new Error(String(error));
  }
}

function isBeginning(bytes: Buffer): boolean {
  return "content-".startsWith(bytes.toString("latin1", 0, "content-".length).toLowerCase());
}

/** The library throws a failed write where nobody can catch it. It is the end of the connection, no more. */
class Writer extends StreamMessageWriter {
  readonly #onFailure: () => void;

  constructor(output: NodeJS.WritableStream, onFailure: () => void) {
    super(output);
    this.#onFailure = onFailure;
  }

  override async write(message: Message): Promise<void> {
    try {
      await super.write(message);
    } catch {
      this.#onFailure();
    }
  }
}
