import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";

/** What a troubled job does with every call: never answers, or answers 429 and asks to wait. */
export type Trouble = "hangs" | "is busy";
const RETRY_AFTER_SECS = 30;

export type TroubledRunner = {
  readonly url: string;
  /** By `performance.now()`, of the first arrival; nothing if the call has not arrived. */
  arrivedAt(id: string): number | undefined;
  /** Calls of troubled jobs that have arrived, however they were answered. */
  troubledArrivals(): number;
  /** The most hanging calls that were under way at once since the last look. */
  mostUnderWay(): number;
  /** Answers whatever hangs, and from now on every job at once. */
  recover(): void;
  /** Calls answered with 200. */
  answered(): { calls: number; duplicates: number };
  close(): Promise<void>;
};

/**
 * A runner some of whose jobs are in trouble while all others answer 200 at once. It listens in the bench's own process, so
 * that one clock tells when a call was accepted and when it arrived.
 */
export async function startTroubledRunner(troubled: readonly number[], trouble: Trouble) {
  const paths = new Set(troubled.map((job) => `/jobs/${job}`));
  const arrivals = new Map<string, number>();
  const answered = new Set<string>();
  const underWay = new Set<() => void>();
  let duplicates = 0;
  let troubledArrivals = 0;
  let most = 0;
  let recovered = false;

  const take: RequestListener = (req, res) => {
    const id = String(req.headers["idempotency-key"]);
    const succeed = (): void => {
      if (answered.has(id)) duplicates += 1;
      answered.add(id);
      res.writeHead(200, { "Content-Length": 2 }).end("{}");
    };
    if (!arrivals.has(id)) arrivals.set(id, performance.now());
    if (recovered || !paths.has(req.url ?? "")) return succeed();
    troubledArrivals += 1;
    if (trouble === "is busy") {
      res.writeHead(429, { "Retry-After": RETRY_AFTER_SECS, "Content-Length": 0 }).end();
      return;
    }
    underWay.add(succeed);
    most = Math.max(most, underWay.size);
    res.on("close", () => underWay.delete(succeed));
  };
  const server = createServer((req, res) => {
    req.resume();
    if (req.url?.startsWith("/jobs/")) req.on("end", () => take(req, res));
    else res.end();
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));

  const runner: TroubledRunner = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    arrivedAt: (id) => arrivals.get(id),
    troubledArrivals: () => troubledArrivals,
    mostUnderWay() {
      const seen = most;
      most = underWay.size;
      return seen;
    },
    recover() {
      recovered = true;
      for (const succeed of underWay) succeed();
    },
    answered: () => ({ calls: answered.size, duplicates }),
    close: () =>
      new Promise((closed) => {
        server.close(() => closed());
        server.closeAllConnections();
      }),
  };
  return runner;
}
