import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { createChain } from "./chain.ts";

/*
 * Facilitator of the bench, which also simulates the node of a chain. It accepts every payment at once, and counts the
 * requests for each.
 *
 *   GET /supported   Says that it supports the scheme "exact" in versions 1 and 2, on the network of the command line.
 *                    The bench never pays in version 1.
 *   POST /verify     Answers that the payment is valid.
 *   POST /settle     Answers that the payment is settled. The payment's nonce takes the place of the transaction's hash.
 *   GET /count       Returns { payments, verifies, settles, uneven } since the last reset. `uneven` is the number of
 *                    payments that were not verified once and settled once.
 *   POST /reset      Deletes the counts.
 *   POST /rpc        Answers as the node of a chain on which the settled payments were made (chain.ts).
 *   POST /far        Makes the node distant: it then answers 80 ms later, and has a receipt only after another block.
 */
const [network = ""] = process.argv.slice(2);
const SUPPORTED = JSON.stringify({
  kinds: [
    { x402Version: 2, scheme: "exact", network },
    { x402Version: 1, scheme: "exact", network: "base-sepolia" },
  ],
  extensions: [],
  signers: {},
});
const NONCE = /"nonce":"(0x[0-9a-f]{64})"/;

const chain = createChain(Number(network.slice("eip155:".length)));

const FAR_MS = 80;
let isFar = false;

type Asked = { verifies: number; settles: number };
let payments = new Map<string, Asked>();

function take(url: string, body: string): string {
  const nonce = NONCE.exec(body)?.[1] ?? "";
  const asked = payments.get(nonce) ?? { verifies: 0, settles: 0 };
  payments.set(nonce, asked);
  if (url === "/verify") {
    asked.verifies += 1;
    return '{"isValid":true}';
  }
  asked.settles += 1;
  chain.settle(body);
  return `{"success":true,"transaction":"${nonce}","network":"${network}"}`;
}

function counted() {
  const all = [...payments.values()];
  const sum = (key: keyof Asked) => all.reduce((total, asked) => total + asked[key], 0);
  const uneven = all.filter(({ verifies, settles }) => verifies !== 1 || settles !== 1).length;
  return { payments: all.length, verifies: sum("verifies"), settles: sum("settles"), uneven };
}

function answer(res: ServerResponse, body: string): void {
  res.writeHead(200, { "Content-Type": "application/json", "Content-Length": body.length });
  res.end(body);
}

function read(url: string): string {
  if (url === "/supported") return SUPPORTED;
  return JSON.stringify(counted());
}

function handlePost(url: string, body: string): string {
  if (url === "/rpc") return chain.rpc(body, isFar);
  if (url === "/far") isFar = true;
  return url === "/verify" || url === "/settle" ? take(url, body) : reset();
}

function reset(): string {
  payments = new Map();
  return "{}";
}

function post(res: ServerResponse, url: string, body: string): void {
  if (isFar && url === "/rpc") setTimeout(() => answer(res, handlePost(url, body)), FAR_MS);
  else answer(res, handlePost(url, body));
}

const server = createServer((req, res) => {
  const { url = "" } = req;
  const chunks: Buffer[] = [];
  req.on("data", (chunk: Buffer) => chunks.push(chunk));
  req.on("end", () => {
    if (req.method === "GET") answer(res, read(url));
    else post(res, url, Buffer.concat(chunks).toString("latin1"));
  });
});
server.listen(0, "127.0.0.1", () => {
  const address = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  console.log(JSON.stringify({ event: "service.started", address }));
});
process.once("SIGTERM", () => process.exit(0));
