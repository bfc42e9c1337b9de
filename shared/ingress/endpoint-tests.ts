import { randomUUID } from "node:crypto";
import { z } from "zod";
import { parseJson } from "../platform/text/parse-json.ts";
import { delay, systemClock } from "../platform/time/clock.ts";
import type { AuditEntry } from "../redis/audit/actions.ts";
import { AUDIT, actKeys, toLine } from "../redis/audit/audit.ts";
import { defineScript } from "../redis/define-script.ts";
import type { Partition } from "../redis/partition.ts";
import { nothing } from "../redis/reply.ts";
import orderTestLua from "./order-test.lua";

/**
 * Time in ms after which a test order expires if no gateway takes it. The console waits for the outcome for the same
 * time.
 */
const PATIENCE_MS = 10_000;
const OUTCOME_KEPT_MS = 60_000;
const LOOK_EVERY_MS = 100;
/** Limit on the test orders that a gateway takes in one step. */
const TAKEN_AT_ONCE = 4;

/**
 * An operator's order to test an endpoint. It holds no secret: the gateway that takes the order signs with its own secret.
 */
const TestOrder = z.object({ id: z.uuid(), path: z.string(), at: z.number() });
export type TestOrder = z.infer<typeof TestOrder>;

/** Outcome of an endpoint test, for the console and the CLI. */
export const TestOutcome = z.object({
  /** HTTP status of the gateway's answer; null if no webhook was sent. */
  status: z.int().nullable(),
  accepted: z.boolean(),
  /** Answer in words, or the reason why no webhook was sent. */
  detail: z.string(),
  /** Null if no call was made, or the answer does not name it. */
  call_id: z.string().nullable(),
});
export type TestOutcome = z.infer<typeof TestOutcome>;

/** Returns the outcome for a test that sent no webhook. */
export function notSent(detail: string): TestOutcome {
  return { status: null, accepted: false, detail, call_id: null };
}

const ORDER = defineScript({
  source: orderTestLua,
  keys: "tests, acts, repeats, actCount",
  args: "order, ms, line",
  constants: { AUDIT },
  proof: "expendable",
  reply: nothing,
});

type TestAct = Extract<AuditEntry<"acts">, { path: string }>;

/** Creates the function with which the console orders a test of an endpoint and waits for its outcome. */
export function createOrderTest({ redis, keys }: Partition, patienceMs = PATIENCE_MS) {
  const order = ORDER.on(redis);
  return async (act: TestAct): Promise<TestOutcome> => {
    const { path, at } = act;
    const placed: TestOrder = { id: randomUUID(), path, at };
    const touched = { tests: keys.endpointTests, ...actKeys(keys, act) };
    await order(touched, { order: JSON.stringify(placed), ms: patienceMs, line: toLine(act) });
    const deadline = systemClock() + patienceMs;
    do {
      await delay(LOOK_EVERY_MS);
      const { data } = TestOutcome.safeParse(
        parseJson((await redis.get(keys.endpointTest(placed.id))) ?? ""),
      );
      if (data !== undefined) return data;
    } while (systemClock() < deadline);
    return notSent(`no webhooks gateway has sent the test within ${patienceMs / 1000} seconds`);
  };
}

/**
 * Creates the functions with which a gateway takes the operators' test orders and reports outcomes. Each order is taken
 * by only one gateway.
 */
export function openEndpointTests({ redis, keys }: Partition) {
  return {
    /**
     * Takes at most TAKEN_AT_ONCE of the waiting orders. Orders for whose outcome the console no longer waits are
     * dropped. `now` is the time of Redis' clock, in Unix ms.
     */
    async take(now: number): Promise<TestOrder[]> {
      const taken = (await redis.lpop(keys.endpointTests, TAKEN_AT_ONCE)) ?? [];
      return taken.flatMap((json) => {
        const order = TestOrder.safeParse(parseJson(json)).data;
        return order !== undefined && now - order.at < PATIENCE_MS ? [order] : [];
      });
    },
    async report({ id }: TestOrder, outcome: TestOutcome): Promise<void> {
      await redis.set(keys.endpointTest(id), JSON.stringify(outcome), "PX", OUTCOME_KEPT_MS);
    },
  };
}
