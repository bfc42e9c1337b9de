import type { EndpointToml } from "../../shared/config/endpoint-toml.ts";
import type { Devnet } from "../../shared/dev/devnet.ts";
import type { Part } from "../../shared/dev/process.ts";
import { readinessUrl, type ServiceName, untilReady, untilSelling } from "../../shared/dev/stack.ts";
import type { Shutdown } from "../../shared/lifecycle/run-service.ts";
import { createPaymentFixture, type PaymentFixture } from "./payment-fixture.ts";
import { createSender, createWebhookLedger, httpRequest, type Sender, type WebhookLedger } from "./sender.ts";
import { type Show, usdc } from "./show.ts";
import { createPostern, createRunnerView, type Postern, type RunnerView } from "./views.ts";
import { createWorld, SERVICE_ID, type World } from "./world.ts";

/** Shows one thing and checks it. Rejects if it cannot go on; the rest of the demo is then left out. */
export type Scenario = (demo: Demo) => Promise<void>;

/** A scenario in which a job is bought, or is not. */
export type PaidScenario = (demo: Demo, payments: PaymentFixture) => Promise<void>;

/** What the scenarios run on. */
export type Demo = {
  readonly show: Show;
  readonly world: World;
  readonly parts: Readonly<Record<"runner" | "producer" | "webhooks" | "operator", Part>>;
  readonly ledger: WebhookLedger;
  readonly sender: Sender;
  readonly runner: RunnerView;
  readonly postern: Postern;
  /** Absent without a devnet: nothing is sold. */
  readonly payments: PaymentFixture | undefined;
  /** The endpoint of this sender, or without a preset of this way to authenticate. */
  endpoint(way: string): EndpointToml;
};

/** The first scenario: starts every part, and shows its address once its readiness probe agrees. */
export async function startDemo(
  home: string,
  env: NodeJS.ProcessEnv,
  show: Show,
  shutdown: Shutdown,
): Promise<Demo> {
  const world = await createWorld(home, env, shutdown);
  show.scenario("Every part starts");
  const { host } = new URL(world.redisUrl);
  const redis = world.ownRedis ? "private, and empty" : "REDIS_URL's, and not in use";
  show.check(row("redis", host, redis), await world.queue.look(), { waiting: 0, failed: 0 });

  const runner = await startPart("runner");
  const producer = await startPart("producer");
  const webhooks = await startPart("webhooks", "--service-id", SERVICE_ID);
  const operator = await startPart("operator", "--bind-address", "127.0.0.1:0");
  const { durability, redis: proof } = JSON.parse((await askReadiness(webhooks)).text);
  show.check(
    `a 202 means "on disk": the gateway has checked Redis (durability ${durability}, proof ${proof})`,
    durability,
    "strict",
  );

  async function startPart(name: ServiceName, ...args: string[]): Promise<Part> {
    const part = await world.start(name, args);
    await untilReady(part);
    const address = name === "producer" ? "" : part.address;
    const statement = row(name, address, `${readinessUrl(part)} answers 200`);
    show.check(statement, (await askReadiness(part)).status, 200);
    return part;
  }

  async function startPayments(): Promise<PaymentFixture | undefined> {
    if ("missing" in world.devnet) {
      showMissing(show, world.devnet.missing, env);
      return undefined;
    }
    const { devnet } = world.devnet;
    const gateway = await startPart("x402");
    const pricing = await startPart("pricing");
    const payments = await createPaymentFixture(world, devnet, gateway, pricing, shutdown);
    await untilSelling(gateway);
    await showDevnet(show, devnet, payments);
    return payments;
  }

  const ledger = createWebhookLedger();
  return {
    show,
    world,
    parts: { runner, producer, webhooks, operator },
    ledger,
    sender: createSender(webhooks.address, ledger),
    runner: createRunnerView(runner.address, world.runnerSecret, ledger),
    postern: createPostern(world.env, world.configDir),
    payments: await startPayments(),
    endpoint(way) {
      const endpoint = world.endpoints.find(({ preset, auth }) => (preset ?? auth) === way);
      if (endpoint === undefined) throw new Error(`expected: an endpoint with ${way}`);
      return endpoint;
    },
  };
}

function askReadiness({ opsAddress, address }: Part) {
  return httpRequest(opsAddress ?? address, { method: "GET", path: "/readyz" });
}

/** Without a devnet, payments are left out; with CI set that is a failure. */
function showMissing(show: Show, missing: string, env: NodeJS.ProcessEnv): void {
  const statement = "payments are left out";
  if (env["CI"]) show.fail(`${statement}, which with CI set they must not be`);
  else show.say(statement);
  for (const line of missing.split("\n")) show.say(line);
}

async function showDevnet(show: Show, devnet: Devnet, { chain, before }: PaymentFixture): Promise<void> {
  const hostOf = (url: string): string => new URL(url).host;
  const places = `facilitator ${hostOf(devnet.facilitatorUrl)}, faults ${hostOf(devnet.controlUrl)}`;
  show.check(row("devnet", hostOf(devnet.rpcUrl), places), await chain.chainId(), devnet.chainId);
  const [first = 0n, ...others] = before.values();
  show.check(
    `${others.length} payers have ${usdc(first)} worthless USDC each on chain ${devnet.chainId}, the seller has none`,
    [...before.values()].map(usdc),
    [...others.map(() => "1000000.000000"), "0.000000"],
  );
}

function row(name: string, address: string, note: string): string {
  return `${name.padEnd(10)}${address.padEnd(18)}${note}`;
}
