import { randomBytes, randomInt } from "node:crypto";
import { Agent } from "node:http";
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { untilReady } from "../../../shared/dev/stack.ts";
import { listen } from "../../../shared/http/listen.ts";
import { sha256Hex } from "../../../shared/platform/crypto/compare.ts";
import { useEnds } from "../../fixtures/ends.ts";
import { useStack } from "../../fixtures/stack.ts";
import type { Effect } from "../../support/effects.ts";
import { send } from "../../support/http.ts";
import { LONG_RUN } from "../../support/long-run.ts";
import { needs } from "../../support/needs.ts";
import { type Nginx, startNginx } from "../../support/nginx.ts";
import { untilDrained } from "./until-drained.ts";

const CALLS = LONG_RUN ? 2000 : 150;
const SENDERS = 32;
const TOKEN = "the-token-of-the-fleet-test";
const RETRY_PAUSE_MS = 50;
const CLAIMED = { "X-Forwarded-For": "203.0.113.9", Forwarded: "for=203.0.113.9" };

type Delivery = { id: string; body: Buffer; callId: string; sendings: number };

const deliveries: Delivery[] = Array.from({ length: CALLS }, (_, i) => ({
  id: `delivery-${i}`,
  body: randomBytes(randomInt(0, 4097)),
  callId: "",
  sendings: 0,
}));

describe("two gateways behind nginx, two producers, a runner and Redis", needs("nginx"), () => {
  const stack = useStack(() => ({
    endpoints: [
      {
        path: "/hooks/fleet",
        job_id: 1,
        auth: "bearer",
        secret: TOKEN,
        idempotency_header: "X-Delivery-Id",
      },
      { path: "/hooks/listed", job_id: 1, auth: "none", allow_ips: ["203.0.113.0/24"] },
    ],
    gateways: 2,
    postern: { http: { trusted_proxies: ["127.0.0.1"] } },
    producers: 2,
  }));
  const ends = useEnds();
  let nginx: Nginx;
  const agent = new Agent({ keepAlive: true, maxSockets: SENDERS });

  beforeAll(async () => {
    const gateways = stack.gateways.map(({ address }) => address);
    nginx = await startNginx(gateways);
  });

  afterAll(async () => {
    agent.destroy();
    await nginx?.stop();
  });

  /** Sends one delivery repeatedly under its id, until it is accepted. */
  async function deliver(delivery: Delivery): Promise<void> {
    const headers = {
      Authorization: `Bearer ${TOKEN}`,
      "X-Delivery-Id": delivery.id,
      "Content-Type": "application/octet-stream",
    };
    for (;;) {
      delivery.sendings++;
      const answer = await send(nginx.address, {
        path: "/hooks/fleet",
        headers,
        body: delivery.body,
        agent,
      }).catch(() => undefined);
      if (answer?.status === 202) {
        delivery.callId = String(answer.json()["call_id"]);
        return;
      }
      if (answer !== undefined && answer.status < 500)
        throw new Error(`refused: ${answer.status} ${answer.text}`);
      await pause(RETRY_PAUSE_MS);
    }
  }

  /** Faults of the fleet, each once this many calls are accepted. */
  const disasters = [
    { after: CALLS * 0.2, strike: () => stack.gateways[0]?.restart() },
    { after: CALLS * 0.4, strike: () => stack.producers[0]?.restart() },
    {
      after: CALLS * 0.6,
      strike: async () => {
        expect(await stack.denials()).toEqual([]);
        await stack.redis.server.kill("SIGKILL");
        await stack.redis.server.restart();
      },
    },
  ];

  test("every accepted call has exactly one effect with its own bytes, even if a gateway, a producer and Redis are killed", {
    timeout: 300_000,
  }, async () => {
    const struck: Promise<unknown>[] = [];
    let accepted = 0;
    const left = deliveries.values();
    const sender = async () => {
      for (const delivery of left) {
        await deliver(delivery);
        accepted++;
        const due = disasters.find(({ after }) => after === accepted);
        if (due !== undefined) struck.push(Promise.resolve(due.strike()));
      }
    };
    await Promise.all(Array.from({ length: SENDERS }, sender));
    await Promise.all(struck);
    expect(struck).toHaveLength(disasters.length);
    expect(deliveries.some(({ sendings }) => sendings > 1)).toBe(true);

    const counts = await untilDrained(stack.redis, "webhook");
    expect(counts).toMatchObject({ waiting: 0, active: 0, delayed: 0, failed: 0 });

    expect(deliveriesWithoutEffect(deliveries, stack.effects())).toEqual({
      without: [],
      repeated: [],
      otherBytes: [],
      ofNobody: [],
    });
  });

  test("an address that a client forges in a header opens no endpoint, although the gateways trust nginx", async () => {
    const answer = await send(nginx.address, { path: "/hooks/listed", headers: CLAIMED, body: "x" });
    expect([answer.status, answer.json()["code"]]).toEqual([403, "request.address_refused"]);
  });

  test("nginx removes every header in which a client claims an address, and names the client's real one", async () => {
    const echo = await listen((req, res) => res.end(JSON.stringify(req.headers)), "127.0.0.1:0");
    ends.defer(() => echo.close(0));
    const before = await startNginx([echo.address, echo.address]);
    ends.defer(before.stop);
    const got = (await send(before.address, { path: "/", headers: CLAIMED, body: "x" })).json();
    expect([got["x-forwarded-for"], got["forwarded"]]).toEqual(["127.0.0.1", undefined]);
  });

  test("nginx passes on bodies up to the gateway's limit, and the gateway refuses larger ones", async () => {
    await Promise.all(stack.gateways.map(untilReady)); // one gateway was killed
    const headers = { Authorization: `Bearer ${TOKEN}` };
    const post = (bytes: number) =>
      send(nginx.address, { path: "/hooks/fleet", headers, body: randomBytes(bytes) });
    expect((await post(1024 * 1024)).status).toBe(202);
    const refused = await post(1024 * 1024 + 1);
    expect([refused.status, refused.json()["code"]]).toEqual([413, "request.too_large"]);
  });
});

/** Returns the deliveries that did not have exactly one effect with their own bytes. */
function deliveriesWithoutEffect(sent: readonly Delivery[], effects: readonly Effect[]) {
  const byCall = new Map<string, Effect[]>();
  for (const effect of effects) byCall.set(effect.callId, [...(byCall.get(effect.callId) ?? []), effect]);
  const of = ({ callId }: Delivery) => byCall.get(callId) ?? [];
  const ids = (wrong: (delivery: Delivery) => boolean) => sent.filter(wrong).map(({ id }) => id);
  return {
    without: ids((delivery) => of(delivery).length === 0),
    repeated: ids((delivery) => of(delivery).length > 1),
    otherBytes: ids((delivery) => of(delivery).some(({ sha256 }) => sha256 !== sha256Hex(delivery.body))),
    ofNobody: [...byCall.keys()].filter((callId) => !sent.some((delivery) => delivery.callId === callId)),
  };
}
