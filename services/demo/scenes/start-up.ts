import type { DevnetPart } from "../../../shared/dev/devnet.ts";
import type { Part } from "../../../shared/dev/process.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import type { Shutdown } from "../../../shared/lifecycle/shutdown.ts";
import { SERVICE_ID } from "../demo-config.ts";
import { httpRequest } from "../http-request.ts";
import type { Demo } from "../scene.ts";
import { openEngine } from "../shop/engine.ts";
import { openShop, type Shop } from "../shop/shop.ts";
import { usdc } from "../shop/usdc.ts";
import type { Stage } from "../stage.ts";
import type { PartName, World } from "../world.ts";

type Opened = Demo["parts"] & { shop: Shop | undefined };

type Options = { world: World; stage: Stage; shutdown: Shutdown };

const FREE_OPS_PORT = ["--ops-address", "127.0.0.1:0"];

/** Starts every part and says where it is, by what it logs itself, once its readiness probe agrees. */
export async function startUp({ world, stage, shutdown }: Options): Promise<Opened> {
  stage.scene("Every part starts");
  const { host } = new URL(world.redisUrl);
  const redis = world.ownRedis ? "private, and empty" : "REDIS_URL's, and not in use";
  stage.check(row("redis", host, redis), await world.queue.look(), { waiting: 0, failed: 0 });

  const runner = await world.start("runner", []);
  await sayReady({ world, stage, name: "runner", part: runner });
  const producer = await world.start("producer", FREE_OPS_PORT);
  await sayReady({ world, stage, name: "producer", part: producer });
  const webhooks = await world.start("webhooks", [...FREE_OPS_PORT, "--service-id", SERVICE_ID]);
  const { durability, redis: proof } = JSON.parse(
    await sayReady({ world, stage, name: "webhooks", part: webhooks }),
  );
  stage.check(
    `a 202 means "on disk": the gateway has checked Redis (durability ${durability}, proof ${proof})`,
    durability,
    "strict",
  );
  return { runner, producer, webhooks, shop: await startShop({ world, stage, shutdown }) };
}

/** Undefined, and said why, where there is no devnet; with CI set that is a failure. */
async function startShop({ world, stage, shutdown }: Options): Promise<Shop | undefined> {
  if ("missing" in world.devnet) {
    const why = "payments are left out";
    if (world.env["CI"]) stage.fail(`${why}, which with CI set they must not be`);
    else stage.say(why);
    for (const line of world.devnet.missing.split("\n")) stage.say(line);
    return undefined;
  }
  const gateway = await world.start("x402", FREE_OPS_PORT);
  await sayReady({ world, stage, name: "x402", part: gateway });
  const pricing = await world.start("pricing", []);
  await sayReady({ world, stage, name: "pricing", part: pricing });
  const engine = openEngine(pricing, world);
  const shop = await openShop({ part: world.devnet, gateway, engine, redisUrl: world.redisUrl, shutdown });
  await shop.untilSelling();
  await sayDevnet(stage, shop, world.devnet);
  return shop;
}

async function sayDevnet(stage: Stage, { chain, before }: Shop, { devnet }: DevnetPart): Promise<void> {
  const hostOf = (url: string): string => new URL(url).host;
  const places = `facilitator ${hostOf(devnet.facilitatorUrl)}, faults ${hostOf(devnet.controlUrl)}`;
  stage.check(row("devnet", hostOf(devnet.rpcUrl), places), await chain.chainId(), devnet.chainId);
  const [first = 0n, ...others] = before.values();
  stage.check(
    `${others.length} payers have ${usdc(first)} worthless USDC each on chain ${devnet.chainId}, the seller has none`,
    [...before.values()].map(usdc),
    [...others.map(() => "1000000.000000"), "0.000000"],
  );
}

type Started = { world: World; stage: Stage; name: PartName; part: Part };

/** The readiness probe's answer. Rejects, saying why, when the part ends instead. */
async function sayReady({ world, stage, name, part }: Started): Promise<string> {
  const probes = part.opsAddress ?? part.address;
  const probe = () => httpRequest(probes, { method: "GET", path: "/readyz" });
  const ready = eventually(`${name} is ready`, async () => (await probe()).status === 200);
  const ended = part.process.exit.then((): never => {
    const reason = world.logs[name].named("service.failed").at(-1)?.["reason"];
    throw new Error(`expected: ${name} keeps running; it ended: ${reason}`);
  });
  await Promise.race([ready, ended]);
  const address = name === "producer" ? "" : part.address;
  const { status, text } = await probe();
  stage.check(row(name, address, `http://${probes}/readyz answers 200`), status, 200);
  return text;
}

function row(name: string, address: string, note: string): string {
  return `${name.padEnd(10)}${address.padEnd(18)}${note}`;
}
