import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { expect, test } from "vitest";
import { eventually } from "../../../shared/dev/wait.ts";
import { Secret } from "../../../shared/platform/crypto/secret.ts";
import { silentLogger } from "../../../shared/platform/log/logger.ts";
import { connectForRequests } from "../../../shared/redis/connect.ts";
import { LargeTurns } from "../../../shared/redis/large-turns.ts";
import { LargeWrites } from "../../../shared/redis/large-writes.ts";
import { partitionOf } from "../../../shared/redis/partition.ts";
import { whenReady } from "../../../shared/redis/ready.ts";
import { useEnds } from "../../fixtures/ends.ts";
import { useOwnRedis, useRedis } from "../../fixtures/redis.ts";

const shared = useRedis();
const other = useOwnRedis();
const ends = useEnds();

test("a large write ends by its deadline even if its connection is never made", async () => {
  const silent = createServer().listen(0, "127.0.0.1");
  ends.defer(() => silent.close());
  await once(silent, "listening");
  const url = `redis://127.0.0.1:${(silent.address() as AddressInfo).port}`;
  const redis = connectForRequests({ url: new Secret(url) }, silentLogger);
  ends.defer(() => redis.disconnect());
  const large = new LargeWrites({
    beside: partitionOf(redis),
    mode: "strict",
    clock: Date.now,
    log: silentLogger,
  });
  ends.defer(() => large.close());
  const begun = performance.now();
  const write = large.write(async () => {}, { bytes: 300 * 1024, until: Date.now() + 200 });
  await expect(write).rejects.toMatchObject({ code: "queue.unavailable" });
  expect(performance.now() - begun).toBeLessThan(1000);
});

test("partitions on one server take turns with large writes, and one on another server does not wait for them", async () => {
  const turns = new LargeTurns();
  const open = async (url: string) => {
    const redis = connectForRequests({ url: new Secret(url) }, silentLogger);
    ends.defer(() => redis.disconnect());
    const options = { mode: "strict", turns, clock: Date.now, log: silentLogger } as const;
    const large = new LargeWrites({ beside: partitionOf(redis), ...options });
    ends.defer(() => large.close());
    await whenReady(redis, 5000);
    return large;
  };
  const places = [await open(shared.url), await open(shared.url), await open(other.url)] as const;
  const [first, second, elsewhere] = places;
  const write = (large: LargeWrites, work: () => Promise<unknown>) =>
    large.write(work, { bytes: 300 * 1024, until: Date.now() + 10_000 });
  const begun: string[] = [];
  let end = (): void => {};
  const held = new Promise<void>((resolve) => {
    end = resolve;
  });
  const writing = write(first, () => held);
  await eventually("the first is written", () => first.patienceMs() > 0);
  const waiting = write(second, async () => begun.push("second"));
  await write(elsewhere, async () => begun.push("elsewhere"));
  expect(begun).toEqual(["elsewhere"]);
  expect(places.map((large) => large.patienceMs() > 0)).toEqual([true, true, false]);
  end();
  await Promise.all([writing, waiting]);
  expect(begun).toEqual(["elsewhere", "second"]);
});
