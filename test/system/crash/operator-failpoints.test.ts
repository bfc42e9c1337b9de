import { expect, test } from "vitest";
import { FAILPOINTS } from "../../../shared/lifecycle/failpoint.ts";
import { useFailedCalls } from "../../fixtures/failed-calls.ts";
import { usePostern } from "../../fixtures/postern.ts";
import { keys } from "../../fixtures/redis.ts";

const fixture = useFailedCalls();
const postern = usePostern(() => ({ postern: { redis: { url: fixture.redis.url } } }));

const POINTS = FAILPOINTS.filter((point) => point.startsWith("operator."));

test.each(POINTS)(
  "postern calls forget killed at %s has changed nothing, or has deleted all and has its line in the audit; run again it is done once",
  async (point) => {
    const [id = ""] = await fixture.fail([{}]);
    const forget = (env?: NodeJS.ProcessEnv) =>
      postern.run(["calls", "forget", id, "--reason", "a test", "--yes"], env && { env });
    expect(await forget({ POSTERN_FAILPOINT: point })).toMatchObject({ code: null, stdout: "", stderr: "" });
    const left = await fixture.redis.client.exists(keys.inQueue("webhook/7/1", id), keys.attempts(id));
    const audited = (await fixture.audited()).length;
    expect([left, audited, await fixture.records.state(id)]).toEqual(
      point === "operator.before_forgotten" ? [2, 0, "FAILED"] : [0, 1, "DISCARDED"],
    );
    expect(await forget()).toMatchObject({ code: 0 });
    expect(await fixture.audited()).toMatchObject([{ action: "forget", call_id: id, reason: "a test" }]);
    expect(await fixture.redis.client.exists(keys.inQueue("webhook/7/1", id), keys.attempts(id))).toBe(0);
  },
);
