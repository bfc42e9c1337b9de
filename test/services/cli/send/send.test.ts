import { execFile } from "node:child_process";
import { generateKeyPairSync } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { beforeEach, expect, test } from "vitest";
import { jsonLines, usePostern } from "../../../fixtures/postern.ts";
import { useWebhooks } from "../../../fixtures/webhooks.ts";
import { needs } from "../../../support/needs.ts";
import { tempDir } from "../../../support/temp-dir.ts";
import { runHere } from "../run-here.ts";

const SECRET = "the secret of github";
const ENDPOINTS = [
  { path: "/hooks/github", preset: "github", job_id: 1, secret: SECRET },
  { path: "/hooks/routed", auth: "none", route_by: { field: "/kind", jobs: { known: 2 } } },
  { path: "/hooks/bearer", auth: "bearer", job_id: 3, secret: "the token of bearer" },
  { path: "/hooks/basic", auth: "basic", job_id: 3, username: "me", secret: "the password of basic" },
  { path: "/hooks/api-key", auth: "api-key", job_id: 3, secret: "the key of api-key" },
  { path: "/hooks/query", auth: "token", token_query: "t", job_id: 3, secret: "the token of query" },
  { path: "/hooks/field", auth: "token", token_field: "/t", job_id: 3, secret: "the token of field" },
  { path: "/hooks/hmac", auth: "hmac-sha256", job_id: 3, secret: "the secret of hmac" },
  { path: "/hooks/discord", preset: "discord-events", job_id: 4, secret: "ab".repeat(32) },
];

const webhooks = useWebhooks();
const postern = usePostern(() => ({
  postern: { redis: { url: "redis://127.0.0.1:1" } },
  webhooks: { endpoints: ENDPOINTS },
}));

let url: string;
beforeEach(async () => {
  url = `http://${(await webhooks.start({ endpoints: ENDPOINTS })).address}`;
});

const sendHere = (path: string, ...more: string[]) =>
  runHere(["send", path, "--gateway", url, "--config-dir", postern.configDir, ...more]);

test("postern send finds preset and secret by the path, and prints what it sent and the answer", async () => {
  const ran = await postern.run(["send", "/hooks/github", "--event", "push", "--gateway", url]);
  expect(ran).toMatchObject({ code: 0, stderr: "" });
  expect(ran.stdout).toMatch(/^POST http:\/\/127\.0\.0\.1:\d+\/hooks\/github\n/);
  expect(ran.stdout).toMatch(/ {2}X-GitHub-Event +push\n/);
  expect(ran.stdout).toMatch(/ {2}X-Hub-Signature-256 +sha256=[0-9a-f]{64}\n/);
  expect(ran.stdout).toMatch(/\n202 Accepted {2}\{.*\naccepted: job 1, call c_[0-9a-f]{32}\n$/);
  expect((await webhooks.onlyCall()).metadata["X-WEBHOOK-EVENT"]).toBe("push");
});

test.each(ENDPOINTS.filter(({ auth }) => auth !== undefined))(
  "postern send proves itself to the endpoint $path, and prints no secret",
  async ({ path, secret = "" }) => {
    const { code, stdout } = await sendHere(path, "--body", '{"kind":"known"}');
    expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringContaining("202 Accepted") });
    if (secret === "") return;
    expect(stdout).not.toContain(secret);
    expect(stdout).not.toContain(encodeURIComponent(secret));
    expect(stdout).not.toContain(Buffer.from(`me:${secret}`).toString("base64"));
  },
);

test("postern send --repeat sends the same delivery again, which is told to be known", async () => {
  const ran = await sendHere("/hooks/github", "--repeat", "1", "-o", "json");
  expect(jsonLines(ran).map(({ answer }) => answer)).toMatchObject([{ replayed: false }, { replayed: true }]);
  await webhooks.onlyCall();
});

test("two runs of postern send are two deliveries, unless --delivery-id is the same", async () => {
  await sendHere("/hooks/github");
  await sendHere("/hooks/github");
  expect(await webhooks.waiting()).toHaveLength(2);
  await sendHere("/hooks/github", "--delivery-id", "d-1");
  expect((await sendHere("/hooks/github", "--delivery-id", "d-1")).stdout).toContain(
    "this delivery is a repeat",
  );
  expect(await webhooks.waiting()).toHaveLength(3);
});

test("postern send --body @file sends the bytes of the file", async () => {
  const file = join(tempDir(), "body.json");
  writeFileSync(file, '{ "id":  "own" }\n');
  expect(await sendHere("/hooks/github", "--body", `@${file}`)).toMatchObject({ code: 0 });
  expect(Buffer.from((await webhooks.onlyCall()).body, "base64").toString()).toBe('{ "id":  "own" }\n');
});

test("postern send --event is written where the endpoint routes by it", async () => {
  expect((await sendHere("/hooks/routed", "--event", "known")).stdout).toContain("accepted: job 2");
  expect((await sendHere("/hooks/routed", "--event", "other")).stdout).toContain("dropped");
});

test("postern send says that the sample's body is of another event, unless it fits or is given", async () => {
  const { code, stderr } = await sendHere("/hooks/github", "--event", "release");
  expect([code, stderr]).toEqual([
    0,
    "the body is the sample of another event, and may not fit release; to send your own, use --body @file\n",
  ]);
  expect((await webhooks.onlyCall()).metadata["X-WEBHOOK-EVENT"]).toBe("release");
  expect((await sendHere("/hooks/github", "--event", "release", "--body", "{}")).stderr).toBe("");
  expect((await sendHere("/hooks/github")).stderr).toBe("");
  expect((await sendHere("/hooks/routed", "--event", "other")).stderr).toBe("");
});

test("a refusal ends postern send with 1, in words, and with what tells more", async () => {
  const ran = await sendHere("/hooks/github", "--secret", "another");
  expect(ran).toMatchObject({ code: 1, stderr: "" });
  expect(ran.stdout).toMatch(
    /\n401 Unauthorized .*\nrefused: Credential is not valid: the credential in [a-z0-9-]+ is not valid/,
  );
  expect(ran.stdout).toContain(
    `postern rejected list --endpoint /hooks/github --config-dir ${postern.configDir}\n`,
  );
});

test("postern send for an endpoint that no configuration has asks for its secret", async () => {
  const ran = await sendHere("/hooks/other", "--preset", "github");
  expect(ran).toMatchObject({ code: 3, stdout: "" });
  expect(ran.stderr).toMatch(
    /secret is missing; use --secret env:NAME .*--config-dir for a configuration with this endpoint$/m,
  );
});

test("a --header wins over the signature", async () => {
  const ran = await sendHere("/hooks/github", "--header", "X-Hub-Signature-256: sha256=00");
  expect(ran).toMatchObject({ code: 1 });
  expect(ran.stdout).toMatch(/X-Hub-Signature-256 +sha256=00\n/);
});

test("postern send prints no secret, though one is sent", async () => {
  const ran = await sendHere("/hooks/bearer");
  expect(ran).toMatchObject({ code: 0 });
  expect(ran.stdout).toMatch(/Authorization +Bearer \[secret\]\n/);
});

test.each([
  ["text", "it's $HOME `x`"],
  ["text that begins with @", "@x"],
])("the curl command of --dry-run sends the same delivery: %s", needs("curl"), async (_what, body) => {
  const args = ["--header", "Content-Type: text/plain", "--dry-run"];
  const file = join(tempDir(), "body");
  writeFileSync(file, body);
  const { stdout } = await sendHere("/hooks/github", "--body", `@${file}`, ...args);
  expect(await webhooks.waiting()).toEqual([]);
  const ran = await promisify(execFile)("sh", ["-c", stdout]);
  expect(ran.stdout).toMatch(/^HTTP\/1\.1 202/);
  expect(Buffer.from((await webhooks.onlyCall()).body, "base64").toString()).toBe(body);
});

test("without its private key, postern send says that only the sender has it, and how to try nevertheless", async () => {
  const ran = await sendHere("/hooks/discord");
  expect(ran).toMatchObject({ code: 1, stdout: "" });
  expect(ran.stderr).toMatch(/private key \(ed25519\) that only the sender has.*openssl genpkey.*--key/);
});

test("a private key that does not fit the endpoint's secret is refused, with the public half to configure", async () => {
  const { privateKey, publicKey } = generateKeyPairSync("ed25519");
  const file = join(tempDir(), "key.pem");
  writeFileSync(file, privateKey.export({ format: "pem", type: "pkcs8" }));
  const { code, stderr } = await sendHere("/hooks/discord", "--key", `file:${file}`);
  const half = publicKey.export({ format: "der", type: "spki" }).subarray(-32).toString("hex");
  expect([code, stderr]).toEqual([1, expect.stringContaining(half)]);
});

test("a path that no endpoint has is refused with the one that was meant", async () => {
  const { code, stderr } = await sendHere("/hooks/githb");
  expect([code, stderr]).toEqual([1, expect.stringMatching(/did you mean \/hooks\/github\?.*--preset/)]);
});

test("a preset that is unknown is refused with the one that was meant", async () => {
  const ran = await sendHere("/x", "--preset", "githb", "--secret", "s");
  expect(ran).toMatchObject({ code: 3, stderr: expect.stringContaining("did you mean github?") });
});

test("a gateway that does not answer is named", async () => {
  const args = ["send", "/a", "--preset", "github", "--secret", "s", "--gateway", "http://127.0.0.1:1"];
  const ran = await runHere(args);
  expect(ran).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/http:\/\/127\.0\.0\.1:1 does not answer/),
  });
});
