import { beforeEach, expect, test } from "vitest";
import { eventually } from "../../../../shared/dev/wait.ts";
import { createOpenedEndpoints, createTakeSecret } from "../../../../shared/ingress/opened-endpoints.ts";
import { TOKENS, useOperator } from "../../../fixtures/console.ts";
import { jsonLines, usePostern } from "../../../fixtures/postern.ts";
import { asUser, keys, useRedis } from "../../../fixtures/redis.ts";
import { audited } from "../../../support/audited.ts";
import { onlyInLongRun } from "../../../support/long-run.ts";
import { runHere } from "../run-here.ts";

const redis = useRedis();
const postern = usePostern(() => ({
  postern: { redis: { url: asUser(redis.url, "operator") } },
  webhooks: { endpoints: [{ path: "/hooks/asana", job_id: 1, preset: "asana" }] },
}));
const consoles = useOperator({ redis });
const SECRET = "b537207f20cbfa02357cf448134da559e8bd39d61597dcd5631b8012eae53e81";
const OPEN = ["endpoints", "open", "/hooks/asana"];

const here = (...args: string[]) => runHere([...args, "--config-dir", postern.configDir]);
const take = () => createTakeSecret(redis.partition)("/hooks/asana", SECRET, "192.0.2.1");
const isOpen = async () => (await redis.client.exists(keys.opened("/hooks/asana"))) === 1;

beforeEach(async () => {
  await redis.client.flushdb();
});

test("postern endpoints open waits for the secret, prints it once with the next steps, and writes an audit line", async () => {
  const running = here(...OPEN);
  await eventually("the secret is taken", take);
  const ran = await running;
  expect(ran.code).toBe(0);
  expect(ran.stdout).toMatch(
    new RegExp(`^secret +${SECRET}\naddress +192\\.0\\.2\\.1\nreceived at +\\S+Z\n`),
  );
  expect(ran.stdout.split(SECRET)).toHaveLength(2);
  expect(ran.stdout).toContain("secret in webhooks.toml");
  expect(ran.stderr).toContain("/hooks/asana is open for 10 min");
  expect(ran.stderr).not.toContain(SECRET);
  const left = (await redis.client.keys("*")).filter((key) => !key.includes(":audit:count:"));
  expect(left).toEqual([keys.audit("acts")]);
  const [[, fields]] = (await redis.client.xrange(keys.audit("acts"), "-", "+")) as [[string, string[]]];
  expect(fields.slice(2)).toEqual([
    ...["action", "open", "path", "/hooks/asana"],
    ...["by", expect.stringContaining("@"), "selection", "for 10 min"],
  ]);
});

test("postern endpoints open -o json prints the secret as one object", async () => {
  const running = here(...OPEN, "-o", "json", "--minutes", "1");
  await eventually("the secret is taken", take);
  expect(jsonLines(await running)).toEqual([
    {
      path: "/hooks/asana",
      secret: SECRET,
      address: "192.0.2.1",
      taken_at: expect.stringMatching(/Z$/),
    },
  ]);
});

test("Ctrl-C closes the endpoint, and the command says that no secret arrived", async () => {
  const ran = await postern.run(OPEN, { interruptAt: /is open for/ });
  expect(ran).toMatchObject({ code: 1, stdout: "" });
  expect(ran.stderr).toContain("/hooks/asana is closed; no secret was received\n");
  expect(await isOpen()).toBe(false);
  expect(await take()).toBe(false);
});

onlyInLongRun(() => {
  test("a secret that arrived after the command was killed is printed by the next run", async () => {
    const killed = postern.start(OPEN);
    await eventually("it is open", isOpen);
    await killed.kill("SIGKILL");
    expect(await take()).toBe(true);
    const ran = await here(...OPEN);
    expect(ran).toMatchObject({ code: 0, stdout: expect.stringContaining(SECRET) });
  });
});

test("if another operator opens the endpoint, the first command ends and says who gets the secret", async () => {
  const first = here(...OPEN);
  await eventually("it is open", isOpen);
  const second = here(...OPEN, "-o", "json");
  expect(await first).toMatchObject({ code: 1, stderr: expect.stringMatching(/@.* has opened .* again/) });
  expect(await take()).toBe(true);
  expect(jsonLines(await second)).toMatchObject([{ secret: SECRET }]);
});

test("postern endpoints close ends the command that waits for the secret", async () => {
  const waiting = here(...OPEN);
  await eventually("it is open", isOpen);
  expect(await here("endpoints", "close", "/hooks/asana")).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^\/hooks\/asana is closed; it was opened by \S+@\S+\n$/),
  });
  expect(await waiting).toMatchObject({ code: 1, stdout: "" });
  expect(await here("endpoints", "close", "/hooks/asana")).toMatchObject({ code: 1 });
  const line = { path: "/hooks/asana", by: expect.stringContaining("@") };
  expect(await audited(redis.client)).toMatchObject([
    { action: "open", ...line, selection: "for 10 min" },
    { action: "close", ...line },
  ]);
});

test("postern endpoints close -o json prints who had opened the endpoint, and whether a secret was deleted, as one object", async () => {
  const act = { at: Date.now(), action: "open", path: "/hooks/asana", by: "a@b" } as const;
  await createOpenedEndpoints(redis.partition).open({ ...act, selection: "for 10 min" }, 600_000);
  expect(await take()).toBe(true);
  const ran = await here("endpoints", "close", "/hooks/asana", "-o", "json");
  expect(jsonLines(ran)).toEqual([{ path: "/hooks/asana", opened_by: "a@b", secret_deleted: true }]);
  expect(await here("endpoints", "close", "/hooks/asana", "-o", "json")).toMatchObject({
    code: 1,
    stdout: "",
  });
});

test("postern endpoints close also works through the console, under the name of the token", async () => {
  const waiting = here(...OPEN);
  await eventually("it is open", isOpen);
  const { address } = await consoles.start();
  const there = () =>
    runHere(
      ["endpoints", "close", "/hooks/asana", "--config-dir", "/nowhere", "--operator", `http://${address}`],
      {
        POSTERN_OPERATOR_TOKEN: TOKENS.operator,
      },
    );
  expect(await there()).toMatchObject({
    ...{ code: 0, stdout: expect.stringMatching(/^\/hooks\/asana is closed; it was opened by \S+@\S+\n$/) },
  });
  expect((await waiting).code).toBe(1);
  expect(await there()).toMatchObject({ code: 1, stderr: "/hooks/asana is not open\n" });
  expect(await audited(redis.client)).toMatchObject([{ action: "open" }, { action: "close", by: "otto" }]);
});

test("an unknown path is refused with exit code 2, and a similar one is suggested", async () => {
  const ran = await here("endpoints", "open", "/hooks/asana/");
  expect(ran).toMatchObject({ code: 2, stdout: "" });
  expect(ran.stderr).toBe("error: no endpoint has the path /hooks/asana/; did you mean /hooks/asana?\n");
  expect(await redis.client.keys("*")).toEqual([]);
});

test("an endpoint is not left open if its audit line cannot be written", async () => {
  await redis.client.set(keys.audit("acts"), "no stream");
  const ran = await here(...OPEN);
  expect(ran).toMatchObject({ code: 1, stderr: expect.stringContaining("WRONGTYPE") });
  expect(await isOpen()).toBe(false);
});
