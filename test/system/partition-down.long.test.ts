import { beforeAll, expect, test } from "vitest";
import { callIdFrom } from "../../shared/call/call-id.ts";
import type { Part } from "../../shared/dev/process.ts";
import type { PrivateRedis } from "../../shared/dev/redis.ts";
import { readinessUrl, untilReady, untilSelling } from "../../shared/dev/stack.ts";
import { eventually } from "../../shared/dev/wait.ts";
import { routeOfPayer } from "../../shared/payments/payment.ts";
import { sha256Hex } from "../../shared/platform/crypto/compare.ts";
import { useDevnet } from "../fixtures/devnet.ts";
import { asUser, useRedis } from "../fixtures/redis.ts";
import { useFourServers } from "../fixtures/redis-topology.ts";
import { useStack } from "../fixtures/stack.ts";
import { seeded } from "./fleet/seeded.ts";
import { bodyOf, deliverOnce, LOAD_ENDPOINTS, Load } from "./load.ts";
import { type Customer, newCustomer, sellingToAllKinds } from "./payers.ts";

const SENDERS = 4;
/** Webhooks without an id that each round sends while a server is down. */
const FREE = 16;

const devnet = useDevnet();
const places = useFourServers();
/** The runner's own Redis, which is not one of the partitions. */
const ofRunner = useRedis();
const stack = useStack(
  () => ({
    endpoints: LOAD_ENDPOINTS,
    x402: { ...sellingToAllKinds(devnet), gateways: 1 },
    postern: { runner: { redis: { url: asUser(ofRunner.url, "runner") } } },
  }),
  places,
);
beforeAll(() => Promise.all(stack.x402.map(untilSelling)));

const indexOf = (callId: string) => places.partitions.indexOf(callId);

const parts = () => [...stack.gateways, ...stack.x402, ...stack.producers] as [Part, Part, Part];

let deliveries = 0;

/** Returns a new delivery id whose call belongs to this partition. */
function newDeliveryIn(index: number): string {
  for (;;) {
    const id = `delivery ${deliveries++}`;
    if (indexOf(callIdFrom("/hook", id, sha256Hex(Buffer.from(bodyOf(id))))) === index) return id;
  }
}

/** Returns a customer whose payments belong to this partition. */
async function customerIn(index: number): Promise<Customer> {
  for (;;) {
    const customer = await newCustomer(devnet, "key");
    if (indexOf(routeOfPayer(customer.payer.address)) === index) return customer;
  }
}

/** Resolves once a gateway is ready and reports only this partition as unavailable. */
async function untilListed(gateway: Part, index: number): Promise<void> {
  await eventually("the gateway lists the partition", async () => {
    const answer = await fetch(readinessUrl(gateway));
    const { redis, partitions } = (await answer.json()) as { redis: string; partitions: { redis: string }[] };
    const usable = partitions.map((each) => each.redis === "always");
    return answer.ok && redis === "3 of 4 partitions can be used" && usable.indexOf(false) === index;
  });
}

/** A server is unavailable if it was killed, or if it is paused and keeps its connections. */
const WAYS = {
  killed: {
    leave: ({ kill }: PrivateRedis) => kill("SIGKILL"),
    comeBack: (server: PrivateRedis) => server.restart(),
  },
  stopped: {
    leave: ({ pid }: PrivateRedis) => process.kill(pid, "SIGSTOP"),
    comeBack: ({ pid }: PrivateRedis) => process.kill(pid, "SIGCONT"),
  },
};

type Way = (typeof WAYS)[keyof typeof WAYS];

const { killed, stopped } = WAYS;
const FIRST_WAYS: readonly Way[] = [killed, stopped, killed, stopped];
const ROUNDS = [...FIRST_WAYS, ...FIRST_WAYS.toReversed()].map((way, round) => ({ way, away: round % 4 }));

/** Checks that all other partitions work while one is unavailable. */
async function testRound(load: Load, { way, away }: (typeof ROUNDS)[number]): Promise<void> {
  const [webhooks, x402, producer] = parts();
  const server = places.servers[away] as PrivateRedis;
  const other = (away + 1) % places.servers.length;
  const [lost, kept] = [newDeliveryIn(away), newDeliveryIn(other)];
  const paidThere = await load.sign(await customerIn(away), "there");
  const paidElsewhere = await load.sign(await customerIn(other), "elsewhere");
  await way.leave(server);
  // A process can do without partition 0 only if it has read it once.
  if (away > 0) await Promise.all([webhooks, x402, producer].map((part) => part.restart()));
  await Promise.all([webhooks, x402].map((gateway) => untilListed(gateway, away)));
  await untilSelling(x402);

  const free = Array.from({ length: FREE }, () => undefined);
  const accepted = await Promise.all([kept, ...free].map((id) => deliverOnce(webhooks.address, id)));
  expect(accepted.map(({ status }) => status)).toEqual(accepted.map(() => 202));
  const ids = accepted.map((answer) => load.note(answer));
  expect(ids.map(indexOf)).not.toContain(away);
  expect(await deliverOnce(webhooks.address, lost)).toMatchObject({ status: 503 });
  expect(await load.post(paidThere)).toMatchObject({ status: 503 });
  expect(await load.post(paidElsewhere)).toMatchObject({ status: 202 });
  await eventually("the producer goes on", () => stack.effectsOf(ids).every((count) => count === 1));

  await way.comeBack(server);
  const late = await load.deliver(lost);
  expect([indexOf(late), await load.deliver(lost)]).toEqual([away, late]);
  await eventually("the payment is accepted", async () => (await load.post(paidThere))?.status === 202);
}

test("each of four servers that is killed or paused in turn stops only its own calls, and nothing is lost or doubled", {
  timeout: 600_000,
}, async () => {
  const load = new Load({ stack, devnet, chance: seeded(1) });
  load.begin(SENDERS, await Promise.all(places.servers.map((_, index) => customerIn(index))));
  for (const round of ROUNDS) await testRound(load, round);
  await Promise.all(parts().map(untilReady));
  await load.end();
  await load.assertWhole("");
});
