import { expect, test } from "vitest";
import { useFailedCalls } from "../../../fixtures/failed-calls.ts";
import { jsonLines, usePostern } from "../../../fixtures/postern.ts";
import { asUser } from "../../../fixtures/redis.ts";
import { runHereWith } from "../run-here.ts";

const fixture = useFailedCalls();
const postern = usePostern(() => ({ postern: { redis: { url: asUser(fixture.redis.url, "operator") } } }));
const here = runHereWith(postern);

test("postern failed list -o json prints one object per line on stdout, and nothing else there", async () => {
  const ids = [
    ...(await fixture.fail([{ path: "/a" }])),
    ...(await fixture.fail([{ path: "/b" }, { path: "/b" }])),
  ];
  const ran = await here(["failed", "list", "--endpoint", "/b", "-o", "json"]);
  expect(ran.code).toBe(0);
  const lines = jsonLines(ran);
  expect(lines.map((line) => line["id"]).toSorted()).toEqual(ids.slice(1).toSorted());
  expect(lines[0]).toMatchObject({
    origin: "webhook",
    endpoint: "/b",
    job_id: 1,
    code: "runner.refused",
    attempts: 1,
  });
  expect(ran.stderr).toBe("2 of 3 failed calls match\n");
});

test("postern failed list --job accepts a job in the form of the tables", async () => {
  const [id = ""] = await fixture.fail([{}]);
  const listed = async (job: string) => (await here(["failed", "list", "--job", job])).stdout.includes(id);
  expect(await Promise.all(["7/1", "8/1", "7/2"].map(listed))).toEqual([true, false, false]);
  expect(await here(["failed", "list", "--job", "7/x"])).toMatchObject({ code: 2 });
});

test.each([
  [1, 1, "1 failed call"],
  [2, 1, "2 failed calls; 1 is listed (--limit 0 lists all)"],
  [2, 2, "2 failed calls"],
])("of %i failed calls with --limit %i the last line says: %s", async (failed, limit, words) => {
  await fixture.fail(Array.from({ length: failed }, () => ({})));
  const { stdout } = await here(["failed", "list", "--limit", String(limit)]);
  expect(stdout.trimEnd().split("\n").at(-1)).toBe(words);
  expect(stdout).toMatch(/ +ATTEMPTS +/);
});

test("postern failed list -o name prints only ids, and -o wide more columns", async () => {
  const [id = ""] = await fixture.fail([{}]);
  expect(await here(["failed", "list", "-o", "name"])).toEqual({
    ...{ code: 0, stdout: `${id}\n`, stderr: "1 failed call\n" },
  });
  const [plain, wide] = [await here(["failed", "list"]), await here(["failed", "list", "-o", "wide"])];
  expect(plain.stdout).toMatch(/^CALL +FAILED +AGE .* REASON\n/);
  expect(wide.stdout).toMatch(/^CALL +FAILED +AGE .* REASON +BYTES +CREATED +TRACEPARENT\n/);
});

test("postern failed list prints one line per call without terminal codes, and says how many more match", async () => {
  await fixture.fail([{}, {}, {}]);
  const ran = await here(["failed", "list", "--limit", "2"]);
  const lines = ran.stdout.trimEnd().split("\n");
  expect(lines).toHaveLength(4);
  expect(lines[1]).toMatch(
    /^c_[0-9a-f]{32} {2}\S+Z +\d+s {2}webhook \/hooks\/a +7\/1 +1 +runner\.refused +the runner said no {2}\[31m$/,
  );
  expect(lines[3]).toBe("3 failed calls; 2 are listed (--limit 0 lists all)");
});
