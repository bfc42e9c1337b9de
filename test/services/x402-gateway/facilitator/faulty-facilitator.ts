import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export type Asked = { method: string; path: string; headers: IncomingMessage["headers"]; body: string };
export type Behave = (req: IncomingMessage, res: ServerResponse) => void;

/** A payer with its own client address. */
export const payingClient = (name: string) => ({ payer: name, address: name });

export type FaultyFacilitator = {
  url: string;
  asked: Asked[];
  /** Number of connections made to the facilitator. */
  connections(): number;
  /** Sets the behaviour for further requests of this operation. */
  on(operation: "verify" | "settle" | "supported", behave: Behave): void;
  close(): Promise<void>;
};

export const answerJson =
  (value: unknown, status = 200, headers: Record<string, string> = {}): Behave =>
  (_req, res) => {
    res.writeHead(status, { "Content-Type": "application/json", ...headers });
    res.end(JSON.stringify(value));
  };

export const answerText =
  (text: string, status = 200, headers: Record<string, string> = {}): Behave =>
  (_req, res) => {
    res.writeHead(status, { "Content-Type": "text/html", ...headers });
    res.end(text);
  };

export const reset: Behave = (req) => void req.socket.resetAndDestroy();

export const never: Behave = () => {};

/** Sends the headers of an answer, and never the end of its body. */
export const halfAnswer: Behave = (_req, res) => {
  res.writeHead(200, { "Content-Type": "application/json" });
  res.write('{"isValid":');
};

export const TRANSACTION = `0x${"ab".repeat(32)}`;
export const PAYER = `0x${"11".repeat(20)}`;

export const KINDS = [
  { x402Version: 2, scheme: "exact", network: "eip155:84532" },
  { x402Version: 1, scheme: "exact", network: "base-sepolia" },
];

/** Starts a facilitator that behaves correctly until the test sets a fault. */
export async function startFaultyFacilitator(port = 0): Promise<FaultyFacilitator> {
  const asked: Asked[] = [];
  const behaviours = new Map<string, Behave>([
    ["/base/supported", answerJson({ kinds: KINDS, extensions: [], signers: {} })],
    ["/base/verify", answerJson({ isValid: true, payer: PAYER })],
    [
      "/base/settle",
      answerJson({ success: true, transaction: TRANSACTION, network: "eip155:84532", payer: PAYER }),
    ],
  ]);
  let connections = 0;
  const server = createServer(async (req, res) => {
    const chunks: Buffer[] = [];
    for await (const chunk of req) chunks.push(chunk as Buffer);
    const { method = "", url: path = "", headers } = req;
    asked.push({ method, path, headers, body: Buffer.concat(chunks).toString() });
    (behaviours.get(path) ?? answerText("nothing here", 404))(req, res);
  });
  server.on("connection", () => {
    connections += 1;
  });
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
  const its = (server.address() as AddressInfo).port;
  return {
    url: `http://127.0.0.1:${its}/base/`,
    asked,
    connections: () => connections,
    on: (operation, behave) => void behaviours.set(`/base/${operation}`, behave),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
