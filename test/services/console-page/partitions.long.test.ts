import { beforeEach, describe, expect, test } from "vitest";
import { openJobs } from "../../../shared/queue/jobs.ts";
import { shoot } from "../../fixtures/chromium.ts";
import { useOperatorPage } from "../../fixtures/console-page.ts";
import { asUser, useOwnRedis, useRedis } from "../../fixtures/redis.ts";
import { violationsOf } from "../../support/axe.ts";
import { needs } from "../../support/needs.ts";
import { partitionsOver } from "../../support/partitions.ts";

describe("the page of a deployment with four partitions", needs("chromium"), () => {
  const redis = useRedis();
  const ofLast = useOwnRedis();
  const { open, start } = useOperatorPage({ redis });
  beforeEach(() => redis.client.flushdb());

  test("lists the partitions, and says which one is unavailable and where a pause is not in force", async () => {
    const partitions = partitionsOver(redis.client, 4).map((each, index) =>
      index === 3 ? { ...each, redis: ofLast.client } : each,
    );
    const { address: at } = await start({
      ...{ partitions: 4, lastPartitionUrl: asUser(ofLast.url, "operator") },
    });
    const page = await open({ at });
    const list = page.getByRole("region", { name: "Partitions" });
    await list.getByText("usable", { exact: true }).nth(3).waitFor();
    expect(await violationsOf(page)).toEqual([]);

    await ofLast.server.kill("SIGKILL");
    await list.getByText("unusable").waitFor();
    const attention = page.getByRole("region", { name: "Needs attention" });
    await attention.getByText(/^partition 3 of 4 cannot be used: connect /).waitFor();
    await shoot(page, "partitions");

    await ofLast.server.restart();
    await list.getByText("usable", { exact: true }).nth(3).waitFor();
    const why = { at: 1, by: "otto", reason: "its runner is down" };
    await openJobs(partitions).pause("7/1", why);
    await ofLast.client.hdel((partitions.all[3] as (typeof partitions)["control"]).keys.job("7/1"), "paused");
    await page.getByRole("link", { name: "Jobs" }).click();
    await page.getByText("paused in 3 of 4 partitions").waitFor();
  });
});
