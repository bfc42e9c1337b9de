import { expect, test } from "vitest";
import { createRouter } from "../../services/runner/runner.ts";
import { CALLBACK_KEYS_PATH } from "../../shared/call/callback.ts";
import { useDeliveries } from "../fixtures/deliveries.ts";
import { usePricing } from "../fixtures/pricing.ts";
import { useRedis } from "../fixtures/redis.ts";
import { useRunners } from "../fixtures/runners.ts";
import { useWebhooks } from "../fixtures/webhooks.ts";
import { JOB_PATH, useX402 } from "../fixtures/x402.ts";
import { send } from "../support/http.ts";
import { sample } from "../support/long-run.ts";

const redis = useRedis();
const webhooks = useWebhooks({ redis });
const x402 = useX402({ redis });
const pricing = usePricing({ redis });
const runners = useRunners({ redis });
const deliveries = useDeliveries({ redis });

const CALL = `calls/c_${"0".repeat(32)}`;
const READ = "GET, HEAD";

/** A server, its fixed paths, and the methods that each accepts. */
type Server = { start(): Promise<string>; paths: Readonly<Record<string, string>> };

const SERVERS: [name: string, Server][] = [
  [
    "the webhooks gateway",
    {
      start: async () =>
        (await webhooks.start({ endpoints: [{ path: "/hook", job_id: 1, auth: "none" }] })).address,
      paths: {
        "/livez": READ,
        "/readyz": READ,
        "/webhooks/health": READ,
        [CALLBACK_KEYS_PATH]: READ,
        [`/webhooks/${CALL}`]: READ,
        [`/webhooks/${CALL}/result`]: READ,
        [`/webhooks/${CALL}/events`]: READ,
        "/hook": "POST",
      },
    },
  ],
  [
    "the payment gateway",
    {
      start: async () => (await x402.gateway()).address,
      paths: {
        "/livez": READ,
        "/readyz": READ,
        "/x402/health": READ,
        [CALLBACK_KEYS_PATH]: READ,
        "/x402": `${READ}, OPTIONS`,
        [JOB_PATH]: "POST, OPTIONS",
        [`${JOB_PATH}/auth-dry-run`]: "POST, OPTIONS",
        [`${JOB_PATH}/price`]: `${READ}, OPTIONS`,
        [`${JOB_PATH}/schema`]: `${READ}, OPTIONS`,
        [`/x402/${CALL}`]: `${READ}, OPTIONS`,
        [`/x402/${CALL}/result`]: `${READ}, OPTIONS`,
        [`/x402/${CALL}/events`]: `${READ}, OPTIONS`,
      },
    },
  ],
  [
    "the pricing engine",
    {
      start: async () => (await pricing.engine()).http.address,
      paths: { "/pricing/jobs/42/3/quote": "POST, OPTIONS" },
    },
  ],
  [
    "the runner",
    {
      start: async () => (await runners.start({ jobs: createRouter() })).address,
      paths: {
        "/livez": READ,
        "/readyz": READ,
        "/jobs": READ,
        "/jobs/1": "POST",
        "/calls": READ,
        "/calls/k": READ,
        "/calls/k/run": `POST, ${READ}`,
      },
    },
  ],
  [
    "a gateway's private address",
    {
      start: async () => (await deliveries.start({ runner: { secret: "s".repeat(32) } })).address,
      paths: {
        "/livez": READ,
        "/readyz": READ,
        "/metrics": READ,
        [`/${CALL}/result`]: "PUT",
        [`/${CALL}/progress`]: "POST",
      },
    },
  ],
];

test.each(SERVERS)(
  "%s refuses methods that a path does not accept with 405, Allow and a problem document",
  async (_, { start, paths }) => {
    const address = await start();
    for (const [path, allow] of Object.entries(paths)) {
      const methods = allow.split(", ").filter((each) => each !== "HEAD" && each !== "OPTIONS");
      for (const method of ["PATCH", "DELETE"]) {
        const answer = await send(address, { method, path });
        expect([path, answer.status, answer.headers["allow"]]).toEqual([path, 405, allow]);
        expect(answer.headers["content-type"]).toBe("application/problem+json");
        expect(answer.json()).toMatchObject({
          code: "request.method_not_allowed",
          detail: expect.stringMatching(new RegExp(`^use ${methods.join(" or ")}(:|$)`)),
        });
      }
    }
  },
);

test.each(sample(SERVERS))("%s answers HEAD like GET, without the body", async (_, { start, paths }) => {
  const address = await start();
  for (const [path, allow] of Object.entries(paths)) {
    const head = await send(address, { method: "HEAD", path });
    expect([path, head.text]).toEqual([path, ""]);
    // A GET of a stream stays open, so it is not compared with HEAD.
    if (path.endsWith("/events")) continue;
    const get = await send(address, { method: "GET", path });
    const shown = ({ status, headers }: typeof get) => [path, status, headers["content-type"]];
    expect(shown(head)).toEqual(shown(get));
    if (!allow.includes("HEAD")) expect(head.status).toBe(405);
    else expect(Number(head.headers["content-length"])).toBeGreaterThan(0);
  }
});

test.each(sample(SERVERS))(
  "%s answers 404 at a path that only resembles one of its own",
  async (_, { start, paths }) => {
    const address = await start();
    for (const path of Object.keys(paths)) {
      const encoded = `${path.slice(0, -1)}%${path.charCodeAt(path.length - 1).toString(16)}`;
      for (const like of [`${path}/`, `/${path}`, path.toUpperCase(), encoded])
        expect([like, (await send(address, { method: "GET", path: like })).status]).toEqual([like, 404]);
    }
  },
);
