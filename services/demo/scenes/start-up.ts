import type { Part } from "../../../shared/child-process/start-part.ts";
import { httpRequest } from "../http-request.ts";
import type { Stage } from "../stage.ts";
import { until } from "../until.ts";
import type { PartName, World } from "../world.ts";

export type Parts = Readonly<Record<PartName, Part>>;

/** Starts every part and says where it is, by what it logs itself, once its readiness probe agrees. */
export async function startUp(world: World, stage: Stage): Promise<Parts> {
  stage.scene("Every part starts");
  const { host } = new URL(world.redisUrl);
  const redis = world.ownRedis ? "private, and empty" : "REDIS_URL's, and not in use";
  stage.check(row("redis", host, redis), await world.queue.look(), { waiting: 0, parked: 0 });

  const runner = await world.start("runner", []);
  await sayReady({ world, stage, name: "runner", part: runner });
  const producer = await world.start("producer", ["--ops-address", "127.0.0.1:0"]);
  await sayReady({ world, stage, name: "producer", part: producer });
  const webhooks = await world.start("webhooks", ["--ops-address", "127.0.0.1:0", "--service-id", "7"]);
  const { durability, redis: proof } = JSON.parse(
    await sayReady({ world, stage, name: "webhooks", part: webhooks }),
  );
  stage.check(
    `a 202 means "on disk": the gateway has checked Redis (durability ${durability}, proof ${proof})`,
    durability,
    "strict",
  );
  return { runner, producer, webhooks };
}

type Started = { world: World; stage: Stage; name: PartName; part: Part };

/** The readiness probe's answer. Rejects, saying why, when the part ends instead. */
async function sayReady({ world, stage, name, part }: Started): Promise<string> {
  const probes = part.opsAddress ?? part.address;
  const probe = () => httpRequest(probes, { method: "GET", path: "/readyz" });
  const ready = until(`${name} is ready`, async () => (await probe()).status === 200);
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
