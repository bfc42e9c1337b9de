import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { expect, test } from "vitest";
import { Secret } from "../../../shared/platform/crypto/secret.ts";
import { silentLogger } from "../../../shared/platform/log/logger.ts";
import { connectForRequests } from "../../../shared/redis/connect.ts";
import { LargeWrites } from "../../../shared/redis/large-writes.ts";
import { partitionOf } from "../../../shared/redis/partition.ts";
import { useEnds } from "../../fixtures/ends.ts";

const ends = useEnds();

test("a large write ends by its deadline though its connection is never made", async () => {
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
