import { describe, expect, test } from "vitest";
import { createRouter } from "../../../../services/runner/runner.ts";
import { eventually } from "../../../../shared/dev/wait.ts";
import { useOwnRedis } from "../../../fixtures/redis.ts";
import { useRunners } from "../../../fixtures/runners.ts";
import { send } from "../../../support/http.ts";

describe("200", () => {
  const redis = useOwnRedis();
  const runners = useRunners({ redis });

  test("a runner answers the liveness probe, even without Redis", async () => {
    const { get } = await runners.start({ jobs: createRouter() });
    expect(await get("/livez")).toMatchObject({ status: 200, text: "ok" });
    await redis.server.kill("SIGKILL");
    await eventually("it is not ready", async () => (await get("/readyz")).status === 503);
    expect(await get("/livez")).toMatchObject({ status: 200, text: "ok" });
  });
});

describe("405", () => {
  const runners = useRunners();

  test("a POST is refused with 405 at the liveness probe, and the answer names GET and HEAD", async () => {
    const { address } = await runners.start({ jobs: createRouter() });
    const answer = await send(address, { path: "/livez" });
    expect([answer.status, answer.headers["allow"]]).toEqual([405, "GET, HEAD"]);
  });
});
