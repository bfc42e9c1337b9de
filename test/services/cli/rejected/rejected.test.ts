import { expect, test } from "vitest";
import { jsonLines, usePostern } from "../../../fixtures/postern.ts";
import { asUser, useRedis } from "../../../fixtures/redis.ts";
import { useRejections } from "../../console/rejections.ts";
import { runHere, runHereWith } from "../run-here.ts";

const redis = useRedis();
const postern = usePostern(() => ({
  postern: { redis: { url: asUser(redis.url, "operator") } },
  webhooks: { endpoints: ["/a", "/quiet"].map((path) => ({ path, job_id: 1, auth: "none" })) },
}));
const rejected = (...args: string[]) => runHere(["rejected", ...args, "--config-dir", postern.configDir]);

const ESCAPES = "the sender said \x1b[31mred\x9b\r";

const rejections = useRejections(redis, { reason: ESCAPES, body: Buffer.from(`{"a":1}${ESCAPES}`) });

const reasons = (ran: { stdout: string }) => jsonLines(ran).map(({ reason }) => reason);

test("postern rejected list prints the newest first, one line per request, without characters that control a terminal", async () => {
  const ran = await runHereWith(postern)(["rejected", "list"]);
  expect(ran).toMatchObject({ code: 0, stderr: "" });
  const lines = ran.stdout.trimEnd().split("\n");
  expect(lines[1]).toMatch(
    /^r_\w{19} {2}\S+Z +\S+ {2}192\.0\.2\.1 +POST +\/a +request\.not_found +differs from \/a by case$/,
  );
  expect(lines).toHaveLength(5);
  expect(lines[4]).toBe("3 refused requests");
  expect(ran.stdout).toMatch(/^[ -~\n]*$/);
});

test("postern rejected list -o json prints one object per line on stdout, and nothing else there", async () => {
  const ran = await rejected("list", "-o", "json", "--limit", "1");
  expect(jsonLines(ran)).toEqual([
    {
      id: expect.stringMatching(/^r_/),
      refused_at: expect.stringMatching(/Z$/),
      endpoint: null,
      address: "192.0.2.1",
      method: "POST",
      path: "/a",
      query_names: ["token"],
      code: "request.not_found",
      reason: "differs from /a by case",
      delivery_id: null,
      header_names: ["X-Key"],
      signature_headers: { came: null, wanted: null },
      credential: null,
      bytes: null,
      missed_before: 0,
    },
  ]);
  expect(ran).toMatchObject({
    code: 0,
    stderr: "3 refused requests; 1 is listed (--limit 0 lists all)\n",
  });
});

test("postern rejected list filters by path, code, time and whether the path is unknown", async () => {
  const list = async (...args: string[]) => reasons(await rejected("list", "-o", "json", ...args));
  expect(await list("--endpoint", "/a")).toHaveLength(2);
  expect(await list("--endpoint", "/quiet")).toEqual([]);
  expect(await list("--unknown")).toEqual(["differs from /a by case"]);
  expect(await list("--code", "webhook.credential_rejected", "--limit", "0")).toEqual(["missing"]);
  expect(await list("--since", new Date((rejections.newest[0]?.at ?? 0) - 1000).toISOString())).toHaveLength(
    2,
  );
  expect(await list("--since", "30m")).toEqual([]);
});

test.each([
  ["/quiet/", "error: no endpoint has the path /quiet/; did you mean /quiet?\n"],
  ["/nope", "error: no endpoint has the path /nope\n"],
  ["unknown", "error: no endpoint has the path unknown\n"],
])(
  "postern rejected list --endpoint %s is refused with exit code 2, because no endpoint has this path",
  async (path, stderr) => {
    expect(await rejected("list", "--endpoint", path)).toEqual({ code: 2, stdout: "", stderr });
  },
);

test("postern rejected list --endpoint also lists the requests of an endpoint that is no longer configured", async () => {
  const endpoints = [{ path: "/quiet", job_id: 1, auth: "none" }];
  postern.configure({ postern: { redis: { url: asUser(redis.url, "operator") } }, webhooks: { endpoints } });
  expect(reasons(await rejected("list", "-o", "json", "--endpoint", "/a"))).toHaveLength(2);
});

test("postern rejected show accepts a prefix of an id, and exits with 1 if several ids match", async () => {
  const [{ id = "" } = {}, next] = jsonLines(await rejected("list", "-o", "json")) as { id: string }[];
  const common = [...id].findIndex((digit, at) => next?.id[at] !== digit);
  const ran = await rejected("show", id.slice(0, common + 1), "-o", "json");
  expect(jsonLines(ran)).toMatchObject([{ id }]);
  expect(await rejected("show", id.slice(0, common))).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/^r_\w+ is ambiguous: [23] request ids start with it, such as r_\w{19}\n$/),
  });
});

test("postern rejected show prints all stored data, and no value of a header or of the query", async () => {
  const [id = ""] = jsonLines(
    await rejected("list", "-o", "json", "--code", "webhook.credential_rejected"),
  ).map((line) => String(line["id"]));
  const ran = await rejected("show", id);
  expect(ran).toMatchObject({ code: 0, stderr: "" });
  expect(ran.stdout).toMatch(/^credential found in +none\ncredential expected in +Stripe-Signature\n/m);
  expect(ran.stdout).toMatch(
    /^advice +Compare the request with the endpoint's configuration: the sender may put its signature in another place/m,
  );
  expect(ran.stdout).toMatch(/^delivery id +d-1$/m);
  expect(ran.stdout).toMatch(/^body +12 bytes, not kept\n/m);
  expect(ran.stdout).toMatch(/^query parameters +token$/m);
  expect(ran.stdout).not.toContain("hidden");
  expect(jsonLines(await rejected("show", id, "-o", "json"))).toMatchObject([
    { id, bytes: 12, body_base64: null },
  ]);
});

test("postern rejected show prints a stored body as hex if it would control the terminal", async () => {
  const [id = ""] = jsonLines(await rejected("list", "-o", "json", "--code", "request.too_large")).map(
    (line) => String(line["id"]),
  );
  const ran = await rejected("show", id);
  expect(ran.stdout).toContain(Buffer.from('{"a":1}').toString("hex"));
  expect(ran.stdout).toMatch(/^[ -~\n]*$/);
});

test("postern rejected show exits with 1 for an unknown request", async () => {
  expect(await rejected("show", `r_${"0".repeat(19)}`)).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("is unknown"),
  });
});
