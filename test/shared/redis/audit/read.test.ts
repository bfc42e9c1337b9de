import { beforeEach, expect, test } from "vitest";
import { silentLogger } from "../../../../shared/platform/log/logger.ts";
import { createAudit } from "../../../../shared/redis/audit/audit.ts";
import { createReadAudit } from "../../../../shared/redis/audit/read.ts";
import { keys, useRedis } from "../../../fixtures/redis.ts";
import { partitionsOver } from "../../../support/partitions.ts";

const redis = useRedis();
beforeEach(() => redis.client.flushdb());

const HOUR_MS = 3_600_000;
const read = (since: number) => createReadAudit(partitionsOver(redis.client))({ since }, { limit: 50 });

test("lines since a time are found behind a line that seems older, because its action took longer or its clock is behind", async () => {
  const now = Date.now();
  const audit = createAudit(redis.partition, silentLogger);
  const pause = (job: string, at: number) =>
    audit({ at, action: "pause", job, by: "otto", selection: "by name" });
  await pause("7/1", now);
  await pause("7/2", now - 60_000);
  await pause("7/3", now - 1000);
  await pause("7/4", now - 60_000);
  const { entries, next } = await read(now - 2000);
  expect(entries.map(({ fields }) => fields["job"])).toEqual(["7/3", "7/1"]);
  expect(next).toBeUndefined();
});

test("lines that were written long before the requested period are not read", async () => {
  const old = Date.now() - 48 * HOUR_MS;
  const adding = redis.client.pipeline();
  for (let n = 0; n < 1500; n++)
    adding.xadd(keys.audit("acts"), `${old}-${n}`, "at", old, "action", "pause", "by", "otto");
  await adding.exec();
  await redis.client.config("RESETSTAT");
  expect((await read(Date.now() - HOUR_MS)).entries).toEqual([]);
  expect(await redis.client.info("commandstats")).toContain("cmdstat_xrevrange:calls=3,");
});

test("all streams form one list, newest first, which a cursor passes once, even among lines of the same time", async () => {
  const ids = Array.from({ length: 40 }, (_, n) => `1000-${Math.floor(n / 4)}`);
  const places = ["acts", "repeats", "money", "reads"] as const;
  for (const [n, id] of ids.entries())
    await redis.client.xadd(keys.audit(places[n % 4] ?? "acts"), id, "at", 1, "action", String(n));
  const readAudit = createReadAudit(partitionsOver(redis.client));
  const listed = async (wanted: Parameters<typeof readAudit>[0]) => {
    const found: { id: string; stream: string }[] = [];
    let after: string | undefined;
    do {
      const page = await readAudit(wanted, { limit: 3, after });
      found.push(...page.entries);
      after = page.next;
    } while (after !== undefined);
    return found;
  };
  const withoutReads = await listed({});
  expect(new Set(withoutReads.map(({ id }) => id)).size).toBe(30);
  expect(withoutReads.map(({ id }) => id.split(".")[0])).toEqual(
    ids.filter((_, n) => n % 4 !== 3).toReversed(),
  );
  const counts = Object.entries({ acts: 20, money: 10, reads: 10 } as const);
  for (const [stream, count] of counts) {
    const found = await listed({ stream: stream as "acts" });
    expect([found.length, new Set(found.map((entry) => entry.stream))]).toEqual([count, new Set([stream])]);
  }
});
