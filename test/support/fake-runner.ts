import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export type Offer = {
  method: string;
  path: string;
  headers: IncomingMessage["headers"];
  rawHeaders: string[];
  body: Buffer;
  at: number;
};

export type FakeAnswer =
  | { status: number; headers?: Record<string, string>; body?: string }
  /** The connection breaks without an answer. */
  | "cut"
  /** Nothing ever comes. */
  | "silence";

export type FakeRunner = {
  url: string;
  offers: Offer[];
  /** What the next offers are answered with. */
  answer: (offer: Offer) => FakeAnswer | Promise<FakeAnswer>;
  close(): Promise<void>;
};

/** A runner that answers whatever a test tells it to; for the answers that the real one gives only when it fails. */
export async function startFakeRunner(): Promise<FakeRunner> {
  const runner: FakeRunner = { url: "", offers: [], answer: () => ({ status: 200 }), close: async () => {} };
  const server = createServer((req, res) => void hear(runner, req, res));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  runner.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  runner.close = () => end(server);
  return runner;
}

async function hear(runner: FakeRunner, req: IncomingMessage, res: ServerResponse): Promise<void> {
  const chunks: Buffer[] = [];
  for await (const chunk of req) chunks.push(chunk as Buffer);
  const { method = "", url = "", headers, rawHeaders } = req;
  const offer = { method, path: url, headers, rawHeaders, body: Buffer.concat(chunks), at: Date.now() };
  runner.offers.push(offer);
  const answer = await runner.answer(offer);
  if (answer === "silence") return;
  if (answer === "cut") req.socket.destroy();
  else res.writeHead(answer.status, answer.headers).end(answer.body);
}

function end(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}
