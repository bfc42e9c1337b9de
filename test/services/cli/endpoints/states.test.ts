import { beforeEach, expect, test } from "vitest";
import { createEnqueue } from "../../../../services/webhooks-gateway/enqueue.ts";
import { jsonLines, usePostern } from "../../../fixtures/postern.ts";
import { aCall } from "../../../fixtures/producer.ts";
import { asUser, useRedis } from "../../../fixtures/redis.ts";
import { audited } from "../../../support/audited.ts";
import { runHere } from "../run-here.ts";

const redis = useRedis();
const PATH = "/hooks/github";
const postern = usePostern(() => ({
  postern: { redis: { url: asUser(redis.url, "operator") } },
  webhooks: { endpoints: [{ path: PATH, job_id: 1, auth: "none" }] },
}));
const here = (...args: string[]) => runHere(["endpoints", ...args, "--config-dir", postern.configDir]);

beforeEach(async () => {
  await redis.client.flushdb();
});

test("postern endpoints hold, disable and enable change an endpoint, say what follows, and write audit lines", async () => {
  expect(await here("hold", PATH, "--reason", "the new handler is not ready")).toMatchObject({
    code: 0,
    stdout:
      "/hooks/github: held at all gateways within 2 seconds; new calls then wait until it is enabled. Calls accepted before go on: pause the job to stop them too\n",
  });
  await createEnqueue(redis.partition)(aCall(), undefined, "small", PATH);
  expect((await here("list")).stdout).toMatch(
    /held since \S+ \(\S+ ago\) by \S+@\S+: the new handler is not ready, 1 call held/,
  );
  expect(await here("disable", PATH, "--reason", "it loops")).toMatchObject({
    code: 0,
    stdout: "/hooks/github: disabled at all gateways within 2 seconds; it holds 1 call until it is enabled\n",
  });
  expect(await here("enable", PATH)).toMatchObject({
    code: 0,
    stdout: "/hooks/github: enabled at all gateways within 2 seconds; 1 held call released\n",
  });
  expect((await audited(redis.client)).map(({ action, path }) => [action, path])).toEqual(
    ["hold", "disable", "enable"].map((action) => [action, PATH]),
  );
});

test("postern endpoints disable -o json prints the change, and exits with 1 if nothing changes", async () => {
  const ran = await here("disable", PATH, "--reason", "it loops", "-o", "json");
  expect(ran.code).toBe(0);
  expect(jsonLines(ran)).toEqual([{ path: PATH, state: "disabled", changed: true, held: 0 }]);
  const again = await here("disable", PATH, "--reason", "it loops");
  expect(again).toMatchObject({ code: 1, stderr: expect.stringContaining("is already disabled") });
});

test("an unknown path or an empty reason is refused, and nothing changes", async () => {
  const unknown = await here("disable", "/hooks/github/", "--reason", "x");
  expect(unknown.code).toBe(1);
  expect(unknown.stderr).toContain("no endpoint has the path /hooks/github/; did you mean /hooks/github?");
  const enabled = await here("enable", "/hooks/none");
  expect(enabled).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("no endpoint has the path /hooks/none"),
  });
  expect((await here("disable", PATH, "--reason", " ")).code).not.toBe(0);
  expect(await audited(redis.client)).toEqual([]);
});
