import { setTimeout as pause } from "node:timers/promises";
import { beforeAll, describe, test } from "vitest";
import type { Part } from "../../../shared/dev/process.ts";
import { untilReady, untilSelling } from "../../../shared/dev/stack.ts";
import type { Failpoint } from "../../../shared/platform/lifecycle/failpoint.ts";
import { within } from "../../../shared/platform/time/clock.ts";
import type { EndpointState } from "../../../shared/queue/endpoints.ts";
import { useDevnet } from "../../fixtures/devnet.ts";
import { type Places, useOwnRedis } from "../../fixtures/redis.ts";
import { useFourServers, useMasters } from "../../fixtures/redis-topology.ts";
import { CONSOLE_TOKEN, type UsedStack, useStack } from "../../fixtures/stack.ts";
import { newPayer } from "../../support/devnet.ts";
import { send } from "../../support/http.ts";
import { seeded } from "../fleet/seeded.ts";
import { LOAD_ENDPOINTS, Load, sellingToPairs } from "../load.ts";
import { newCustomer, PAYER_KINDS } from "../payers.ts";

/** POSTERN_TEST_KILLS sets the number of kills, and POSTERN_TEST_SEED their order. */
const KILLS = Number(process.env["POSTERN_TEST_KILLS"] ?? 20);
const SEED = Number(process.env["POSTERN_TEST_SEED"] ?? 15);
const MINUTES_MAX = 2 + KILLS / 4;
const SENDERS = 16;
/** Payers, at least one of each kind. */
const PAYERS = 5;
/** Enough tokens for about 300,000 jobs, and so for any number of kills. */
const ENOUGH_TOKENS = 1_000_000_000_000n;
const RETRY_PAUSE_MS = 50;
const AS_OPERATOR = { Authorization: `Bearer ${CONSOLE_TOKEN}`, "Content-Type": "application/json" };
/** Time after which a failpoint that was not reached is given up. */
const REACHED_MS = 10_000;

const POINTS: Readonly<Record<"gateway" | "x402" | "producer" | "console", readonly Failpoint[]>> = {
  gateway: ["gateway.before_add", "gateway.after_add", "gateway.after_answer"],
  x402: [
    "x402.after_verify",
    "x402.after_claim",
    "x402.after_settle",
    "x402.after_queued",
    "x402.after_answer",
  ],
  producer: [
    "producer.after_wake",
    "producer.after_poll",
    "producer.after_fetch",
    "producer.after_take",
    "producer.before_post",
    "producer.after_post",
    "producer.after_finish",
  ],
  console: ["operator.after_released"],
};

/** Kills parts of a stack under load. */
class Killer {
  /** Random numbers of the kills. The load has its own, because its progress until a kill differs from run to run. */
  readonly #chance = seeded(SEED);
  readonly #stack: UsedStack<Places>;
  readonly #load: Load;

  constructor(stack: UsedStack<Places>, load: Load) {
    this.#stack = stack;
    this.#load = load;
  }

  /** Kills a part. Returns which part was killed, and where. */
  async kill(): Promise<string> {
    const { gateways, x402, producers, consoles } = this.#stack;
    await pause(100 * this.#chance.pick([0, 1, 2, 5]));
    const kind = this.#chance.pick(["gateway", "x402", "producer", "console", "redis"] as const);
    if (kind === "redis") return this.#killRedis();
    const parts = { gateway: gateways, x402, producer: producers, console: consoles }[kind];
    const part: Part = this.#chance.pick(parts);
    const point = this.#chance.pick(POINTS[kind]);
    // Some points precede the part's start event, so the restart may fail.
    const died = part.restart({ POSTERN_FAILPOINT: point }).then(
      () => part.process.exit,
      () => {},
    );
    const end = await within(REACHED_MS, died);
    await part.restart();
    return `${point}${end.kind === "done" ? "" : ", not reached"}`;
  }

  /** While one of several servers is down, each gateway accepts webhooks without an id. */
  async #killRedis(): Promise<string> {
    const { redis, gateways } = this.#stack;
    const { servers } = redis;
    const server = this.#chance.pick(servers);
    await server.kill("SIGKILL");
    if (servers.length > 1)
      await Promise.all(gateways.map((gateway) => this.#load.deliver(undefined, [gateway])));
    await server.restart();
    return `redis ${servers.indexOf(server)}`;
  }
}

/** Sets the state of the webhooks' endpoint as soon as the console can. */
async function setState(console: Part | undefined, state: EndpointState): Promise<void> {
  const order = { path: "/hook", state, reason: "a test" };
  const request = { path: "/api/v1/endpoints/state", headers: AS_OPERATOR, body: JSON.stringify(order) };
  for (;;) {
    const answer = await send(console?.address ?? "", request).catch(() => undefined);
    if (answer?.status === 200) return;
    await pause(RETRY_PAUSE_MS);
  }
}

/** Repeatedly holds or disables the endpoint, and enables it a moment later. */
async function operate({ consoles: [console] }: UsedStack<Places>, load: Load): Promise<void> {
  const chance = seeded(SEED);
  while (!load.isOver) {
    await setState(console, chance.pick(["held", "held", "disabled"]));
    await pause(100 * chance.pick([1, 5, 20]));
    await setState(console, "enabled");
    await pause(100 * chance.pick([1, 5, 20]));
  }
}

describe.each<[string, () => Places]>([
  ["one server", useOwnRedis],
  ["four partitions on four servers", useFourServers],
  ["four partitions on a Cluster of three masters", useMasters],
])("with %s", (_, usePlaces) => {
  const devnet = useDevnet();
  const stack = useStack(
    () => ({
      endpoints: LOAD_ENDPOINTS,
      x402: sellingToPairs(devnet),
      // With several partitions, this job's calls need permits of the first one.
      postern: { jobs: { "1/1": { concurrency: 4 } } },
      gateways: 2,
      producers: 2,
      consoles: 1,
    }),
    usePlaces(),
  );
  beforeAll(() => Promise.all(stack.x402.map(untilSelling)));

  test("gateways, producers, consoles and Redis that are killed repeatedly under load, while an endpoint is held and enabled, lose and double nothing", {
    timeout: MINUTES_MAX * 60_000,
  }, async () => {
    const { gateways, producers, x402, consoles } = stack;
    const load = new Load({ stack, devnet, chance: seeded(SEED) });
    const killer = new Killer(stack, load);
    const kinds = Array.from({ length: PAYERS }, (_, i) => PAYER_KINDS[(i + SEED) % PAYER_KINDS.length]);
    const customers = await Promise.all(
      kinds.map((kind = "key") => newCustomer(devnet, kind, { tokens: ENOUGH_TOKENS, deployed: false })),
    );
    load.begin(SENDERS, customers);
    await load.beginPairs([await newPayer(devnet, ENOUGH_TOKENS), await newPayer(devnet, ENOUGH_TOKENS)]);
    const operating = operate(stack, load);
    const killed: string[] = [];
    while (killed.length < KILLS) killed.push(await killer.kill());
    await Promise.all([...gateways, ...producers, ...x402, ...consoles].map(untilReady));
    await load.end();
    await operating;
    const seen = `after ${killed.join("; ")}: ${load.seen}`;
    if (process.env["POSTERN_TEST_KILLS"] !== undefined) console.log(seen);
    await load.assertWhole(seen);
  });
});
