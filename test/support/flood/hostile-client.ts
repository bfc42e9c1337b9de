import { connect, type Socket } from "node:net";

/** The bytes of one request, in pieces that many requests share. */
export type Pieces = readonly (Buffer | string)[];

type Options = {
  address: string;
  from: string;
  /** Returns the next request; with undefined the connection stays open and idle. */
  next: () => Pieces | undefined;
  onOpen: () => void;
  onAnswer: (status: string) => void;
  /** Called when the connection ended without an answer. */
  onCut: () => void;
};

const AGAIN_MS = 10;

/** Keeps one connection, and opens another when it ends. After each answer it sends the next request. */
export function keepAsking(options: Options): void {
  const { address, from, next, onOpen, onAnswer, onCut } = options;
  const { hostname: host, port } = new URL(`http://${address}`);
  const socket = connect({ host, port: Number(port), localAddress: from, noDelay: true });
  let answer = new Answer();
  let isAsking = false;

  const ask = (): void => {
    const pieces = next();
    isAsking = pieces !== undefined;
    answer = new Answer();
    if (pieces !== undefined) writeAll(socket, pieces);
  };
  socket.once("connect", () => {
    onOpen();
    ask();
  });
  socket.on("data", (chunk: Buffer) => {
    answer.take(chunk);
    if (!answer.isWhole || !isAsking) return;
    isAsking = false;
    onAnswer(answer.status);
    if (answer.isLast) socket.destroy();
    else ask();
  });
  socket.on("error", () => {}); // "close" follows
  socket.on("end", () => socket.destroy());
  socket.once("close", () => {
    if (isAsking) onCut();
    setTimeout(keepAsking, AGAIN_MS, { ...options, onOpen: () => {} });
  });
}

function writeAll(socket: Socket, pieces: Pieces): void {
  socket.cork();
  for (const piece of pieces) socket.write(piece);
  socket.uncork();
}

/** Parses one answer with a Content-Length as it arrives. */
class Answer {
  status = "";
  isLast = false;
  isWhole = false;
  #head = "";
  #left = Number.NaN;

  take(chunk: Buffer): void {
    if (Number.isNaN(this.#left)) this.#takeHead(chunk);
    else this.#left -= chunk.length;
    this.isWhole = this.#left <= 0;
  }

  #takeHead(chunk: Buffer): void {
    this.#head += chunk.toString("latin1");
    const end = this.#head.indexOf("\r\n\r\n");
    if (end === -1) return;
    const head = this.#head.slice(0, end);
    this.status = head.slice(9, 12);
    this.isLast = /\r\nConnection: close/i.test(head);
    this.#left = Number(/\r\nContent-Length: (\d+)/i.exec(head)?.[1] ?? 0) - (this.#head.length - end - 4);
  }
}
