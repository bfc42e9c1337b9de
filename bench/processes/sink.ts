import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { quantile } from "../support/statistics.ts";
import { SENT_HEADER } from "./steady-protocol.ts";

/*
 * Runner of the bench. It runs no job: it answers 200 at once, and counts how often each call id arrives.
 *
 *   POST /jobs/<n>        one injection
 *   GET /count?skip=<n>   { calls, duplicates, perSecond } since the last reset; the rate leaves out the first n calls
 *   GET /latencies        { p50Ms, p99Ms, maxMs } from the send time in each call's header to its arrival
 *   POST /reset
 */
let arrivals = new Map<string, number>();
let duplicates = 0;
/** Latencies in milliseconds. */
let latencies: number[] = [];

function timeSince(sentAt: unknown): void {
  if (typeof sentAt === "string") latencies.push(Number(process.hrtime.bigint() - BigInt(sentAt)) / 1e6);
}

function count(id: string): void {
  if (arrivals.has(id)) duplicates += 1;
  else arrivals.set(id, performance.now());
}

function counted(skip: number) {
  const times = [...arrivals.values()];
  const measured = times.slice(skip);
  const [first = 0] = measured;
  const ms = (measured.at(-1) ?? 0) - first;
  return { calls: times.length, duplicates, perSecond: ms > 0 ? ((measured.length - 1) * 1000) / ms : 0 };
}

function summary() {
  return {
    p50Ms: quantile(latencies, 0.5),
    p99Ms: quantile(latencies, 0.99),
    maxMs: latencies.reduce((most, each) => Math.max(most, each), 0),
  };
}

function reset(): string {
  arrivals = new Map();
  latencies = [];
  duplicates = 0;
  return "{}";
}

function answer(res: ServerResponse, body: string): void {
  res.writeHead(200, { "Content-Type": "application/json", "Content-Length": body.length });
  res.end(body);
}

const server = createServer((req, res) => {
  const { url = "", headers } = req;
  req.resume();
  timeSince(headers[SENT_HEADER.toLowerCase()]);
  if (url.startsWith("/count")) {
    return answer(res, JSON.stringify(counted(Number(new URL(url, "http://sink").searchParams.get("skip")))));
  }
  if (url === "/latencies") return answer(res, JSON.stringify(summary()));
  if (url === "/reset") return answer(res, reset());
  req.on("end", () => {
    count(String(headers["idempotency-key"]));
    answer(res, "{}");
  });
});
server.listen(0, "127.0.0.1", () => {
  const address = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  console.log(JSON.stringify({ event: "service.started", address }));
});
process.once("SIGTERM", () => process.exit(0));
