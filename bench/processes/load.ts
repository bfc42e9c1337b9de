import { readFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import type { LoadOptions, LoadResult } from "./load-protocol.ts";

/*
 * The sender of a bench, light enough not to be what is measured: prebuilt requests, one for each path, written
 * in turn on each of its connections as soon as the answer before is there, or as many prebuilt requests as are sent, each
 * one once. Speaks just the HTTP it is answered with: a Content-Length in every answer. Prints its result as one line of
 * JSON.
 */
const options = JSON.parse(process.argv[2] ?? "") as LoadOptions;
const [host = "", port = ""] = options.address.split(":");
const requests = toRequests(options);
let sent = 0;

const statuses = new Map<number, number>();
let unanswered = 0;

type Phase = { toSend: number; toAnswer: number; latencies: number[]; ended: () => void };
let phase: Phase;

class Connection {
  readonly #socket: Socket;
  #sentAt = 0;
  #answer = "";
  #waiting = false;

  constructor() {
    this.#socket = connect({ host, port: Number(port), noDelay: true });
    this.#socket.on("data", (chunk) => this.#take(chunk.toString("latin1")));
    this.#socket.on("error", (error) => console.error(error.message));
    this.#socket.on("close", () => {
      if (this.#waiting) this.#lost();
    });
  }

  send(): void {
    if (phase.toSend === 0) return;
    phase.toSend -= 1;
    this.#waiting = true;
    this.#sentAt = performance.now();
    this.#socket.write(requests[sent % requests.length] ?? "");
    sent += 1;
  }

  end(): void {
    this.#socket.destroy();
  }

  #take(text: string): void {
    this.#answer += text;
    const head = this.#answer.indexOf("\r\n\r\n");
    if (head === -1) return;
    const length = /content-length: *(\d+)/i.exec(this.#answer)?.[1];
    if (this.#answer.length < head + 4 + Number(length)) return;
    const status = Number(this.#answer.slice(9, 12));
    statuses.set(status, (statuses.get(status) ?? 0) + 1);
    this.#answer = "";
    this.#waiting = false;
    phase.latencies.push(performance.now() - this.#sentAt);
    this.#settle();
    this.send();
  }

  /** What was sent may or may not have been accepted. */
  #lost(): void {
    this.#waiting = false;
    unanswered += 1;
    this.#settle();
  }

  #settle(): void {
    phase.toAnswer -= 1;
    if (phase.toAnswer === 0) phase.ended();
  }
}

function toRequests({ address, paths, body, headers, headersFile, warmUp, calls }: LoadOptions): Buffer[] {
  const common = [
    `Host: ${address}`,
    "User-Agent: bench",
    "Accept: */*",
    "Content-Type: application/json",
    `Content-Length: ${Buffer.byteLength(body)}`,
    ...headers,
  ];
  const toRequest = (path: string, own: readonly string[] = []) =>
    Buffer.from(`${[`POST ${path} HTTP/1.1`, ...common, ...own].join("\r\n")}\r\n\r\n${body}`);
  if (headersFile === undefined) return paths.map((path) => toRequest(path));
  const own = readFileSync(headersFile, "latin1").split("\n");
  if (own.length < warmUp + calls)
    throw new Error(`${headersFile} is too short for ${warmUp + calls} requests`);
  return own.map((line, i) => toRequest(paths[i % paths.length] ?? "", [line]));
}

async function run(
  connections: readonly Connection[],
  calls: number,
): Promise<{ ms: number; sorted: number[] }> {
  const started = performance.now();
  const latencies: number[] = [];
  await new Promise<void>((ended) => {
    phase = { toSend: calls, toAnswer: calls, latencies, ended };
    for (const connection of connections) connection.send();
  });
  return { ms: performance.now() - started, sorted: latencies.sort((a, b) => a - b) };
}

const connections = Array.from({ length: options.connections }, () => new Connection());
if (options.warmUp > 0) await run(connections, options.warmUp);
const { ms, sorted } = await run(connections, options.calls);
for (const connection of connections) connection.end();

const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
const accepted = statuses.get(options.status) ?? 0;
statuses.delete(options.status);
const result: LoadResult = {
  perSecond: (options.calls * 1000) / ms,
  p50Ms: at(0.5),
  p99Ms: at(0.99),
  accepted,
  refused: Object.fromEntries(statuses),
  unanswered,
};
console.log(JSON.stringify(result));
