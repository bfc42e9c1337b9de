import { connect, type Socket } from "node:net";

/** Gives a `Connection` its next requests, and receives the outcome of each. */
export type Traffic = {
  /** Returns the next request; undefined if none is due. */
  next(): Buffer | undefined;
  answered(status: number, head: string, ms: number): void;
  /** Called if the connection ended before the answer to a request. The request may have been accepted. */
  lost(): void;
};

/** Parts that all requests of one sender have in common. */
type Common = { address: string; body: string; headers: readonly string[] };

/** Returns a function that builds the bytes of one POST. Its `own` are header lines that only this request has. */
export function createPost({
  address,
  body,
  headers,
}: Common): (path: string, own?: readonly string[]) => Buffer {
  const common = [
    `Host: ${address}`,
    "User-Agent: bench",
    "Accept: */*",
    "Content-Type: application/json",
    `Content-Length: ${Buffer.byteLength(body)}`,
    ...headers,
  ].join("\r\n");
  return (path, own = []) =>
    Buffer.from(`${[`POST ${path} HTTP/1.1`, common, ...own].join("\r\n")}\r\n\r\n${body}`);
}

/**
 * One connection of a sender. It uses so little CPU that the sender is not the bottleneck. It writes the next request when the
 * last answer has arrived. If the socket was closed, it opens a new one. It parses only part of HTTP: every answer must have a
 * Content-Length.
 */
export class Connection {
  readonly #address: { host: string; port: number };
  readonly #traffic: Traffic;
  #socket: Socket;
  #sentAt = 0;
  #answer = "";
  #waiting = false;

  constructor(address: string, traffic: Traffic) {
    const [host = "", port = ""] = address.split(":");
    this.#address = { host, port: Number(port) };
    this.#traffic = traffic;
    this.#socket = this.#open();
  }

  /** Sends the next request. While a request waits for its answer, does nothing: the answer then triggers the next one. */
  send(): void {
    if (this.#waiting) return;
    const request = this.#traffic.next();
    if (request === undefined) return;
    if (!this.#socket.writable) this.#socket = this.#open();
    this.#waiting = true;
    this.#sentAt = performance.now();
    this.#socket.write(request);
  }

  end(): void {
    this.#socket.destroy();
  }

  #open(): Socket {
    const socket = connect({ ...this.#address, noDelay: true });
    socket.on("data", (chunk) => this.#take(chunk.toString("latin1")));
    socket.on("error", (error) => console.error(error.message));
    socket.on("close", () => {
      if (this.#waiting && socket === this.#socket) this.#lost();
    });
    return socket;
  }

  #take(text: string): void {
    this.#answer += text;
    const end = this.#answer.indexOf("\r\n\r\n");
    if (end === -1) return;
    const length = /content-length: *(\d+)/i.exec(this.#answer)?.[1];
    if (this.#answer.length < end + 4 + Number(length)) return;
    const head = this.#answer.slice(0, end);
    this.#answer = "";
    this.#waiting = false;
    if (/^connection: *close/im.test(head)) this.#socket.destroy();
    this.#traffic.answered(Number(head.slice(9, 12)), head, performance.now() - this.#sentAt);
    this.send();
  }

  #lost(): void {
    this.#waiting = false;
    this.#answer = "";
    this.#traffic.lost();
  }
}
