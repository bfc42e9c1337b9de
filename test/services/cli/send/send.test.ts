import { execFile } from "node:child_process";
import { generateKeyPairSync, type KeyObject } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { stringify } from "smol-toml";
import { beforeAll, expect, test } from "vitest";
import { jsonLines, usePostern } from "../../../fixtures/postern.ts";
import { useWebhooks } from "../../../fixtures/webhooks.ts";
import { onlyInLongRun, sample } from "../../../support/long-run.ts";
import { needs } from "../../../support/needs.ts";
import { tempDir } from "../../../support/temp-dir.ts";
import { runHere, runHereWith } from "../run-here.ts";

const pemOf = (key: KeyObject) =>
  String(key.export({ format: "pem", type: key.type === "private" ? "pkcs8" : "spki" }));

const SECRET = "the secret of github";
const ISSUER = generateKeyPairSync("ec", { namedCurve: "P-256" });
const ISSUED = {
  ...{ auth: "jwt", job_id: 3, issuer: "https://issuer.example.com", audience: "postern" },
  jwks: JSON.stringify({ keys: [{ ...ISSUER.publicKey.export({ format: "jwk" }), kid: "its" }] }),
};
const ENDPOINTS = [
  { path: "/hooks/github", preset: "github", job_id: 1, secret: SECRET },
  {
    ...{ path: "/hooks/message", auth: "http-signature", job_id: 3, secret: "the secret of message" },
    ...{ public_url: "https://a.example/hooks/message", delivery_id: "{header:X-Id}" },
    http_signature: {
      ...{ algorithm: "hmac-sha256", tag: "a tag" },
      components: [
        "@method",
        "@authority",
        "@path",
        "content-digest",
        "content-length",
        "date",
        "host",
        "x-id",
      ],
    },
  },
  { path: "/hooks/hmac", auth: "hmac-sha256", job_id: 3, secret: "the secret of hmac" },
  { path: "/hooks/basic", auth: "basic", job_id: 3, username: "me", secret: "the password of basic" },
  { path: "/hooks/query", auth: "token", token_query: "t", job_id: 3, secret: "the token of query" },
  { path: "/hooks/bearer", auth: "bearer", job_id: 3, secret: "the token of bearer" },
  { path: "/hooks/api-key", auth: "api-key", job_id: 3, secret: "the key of api-key" },
  { path: "/hooks/field", auth: "token", token_field: "/t", job_id: 3, secret: "the token of field" },
  { path: "/hooks/routed", auth: "none", route_by: { field: "/kind", jobs: { known: 2 } } },
  { path: "/hooks/filtered", auth: "none", job_id: 2, when: "body.kind == 'known'" },
  { path: "/hooks/discord", preset: "discord-events", job_id: 4, secret: "ab".repeat(32) },
];
const OF_ISSUER = [
  { path: "/hooks/issued", ...ISSUED },
  { path: "/hooks/fetched", ...ISSUED, jwks: "https://issuer.example.com/keys" },
];

const webhooks = useWebhooks();
const postern = usePostern(() => ({
  postern: { redis: { url: "redis://127.0.0.1:1" } },
  webhooks: { endpoints: [...ENDPOINTS, ...OF_ISSUER] },
}));

let url: string;
beforeAll(async () => {
  url = `http://${(await webhooks.start({ endpoints: [...ENDPOINTS, ...OF_ISSUER] })).address}`;
});

const sendHere = (path: string, ...more: string[]) =>
  runHere(["send", path, "--gateway", url, "--config-dir", postern.configDir, ...more]);

test("postern send finds preset and secret by the path, and prints the request and the answer", async () => {
  const ran = await runHereWith(postern)(["send", "/hooks/github", "--event", "push", "--gateway", url]);
  expect(ran).toMatchObject({ code: 0, stderr: "" });
  expect(ran.stdout).toMatch(/^POST http:\/\/127\.0\.0\.1:\d+\/hooks\/github\n/);
  expect(ran.stdout).toMatch(/ {2}X-GitHub-Event +push\n/);
  expect(ran.stdout).toMatch(/ {2}X-Hub-Signature-256 +sha256=[0-9a-f]{64}\n/);
  expect(ran.stdout).toMatch(/\n202 Accepted {2}\{.*\naccepted: job 1, call c_[0-9a-f]{32}\n$/);
  expect((await webhooks.onlyCall()).metadata["X-WEBHOOK-EVENT"]).toBe("push");
});

test.each(
  sample(
    ENDPOINTS.filter(({ auth }) => auth !== undefined),
    4,
  ),
)("postern send authenticates to the endpoint $path, and prints no secret", async ({ path, secret = "" }) => {
  const { code, stdout } = await sendHere(path, "--body", '{"kind":"known"}');
  expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringContaining("202 Accepted") });
  if (secret === "") return;
  expect(stdout).not.toContain(secret);
  expect(stdout).not.toContain(encodeURIComponent(secret));
  expect(stdout).not.toContain(Buffer.from(`me:${secret}`).toString("base64"));
});

test("postern send --repeat sends the same delivery again, and says that the gateway recognized it", async () => {
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

test("postern send --event sets the event if the endpoint chooses the job by it", async () => {
  expect((await sendHere("/hooks/routed", "--event", "known")).stdout).toContain("accepted: job 2");
  expect((await sendHere("/hooks/routed", "--event", "other")).stdout).toContain("dropped");
});

const FILTERED: [body: string, note: string, answer: string][] = [
  ['{"kind":"known"}', "when is true for this request", "accepted: job 2"],
  ['{"kind":"other"}', "when is false for this request: the gateway would not queue it", "dropped"],
  [
    "{}",
    "when has no result for this request: the gateway would answer 503 (when: body.kind is missing)",
    "503 Service Unavailable",
  ],
];

test.each(sample(FILTERED))(
  "postern send prints the result of the endpoint's filter for %s, before and after sending",
  async (body, note, answer) => {
    expect((await sendHere("/hooks/filtered", "--body", body, "--dry-run")).stderr).toBe(`${note}\n`);
    expect((await sendHere("/hooks/filtered", "--body", body)).stdout).toContain(answer);
  },
);

test("postern send says that the sample's body is for another event, unless it matches or a body is given", async () => {
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

test("if the gateway refuses the request, postern send exits with 1, and explains the refusal and names the next command", async () => {
  const ran = await sendHere("/hooks/github", "--secret", "another");
  expect(ran).toMatchObject({ code: 1, stderr: "" });
  expect(ran.stdout).toMatch(
    /\n401 Unauthorized .*\nrefused: Credential is not valid: the credential in [a-z0-9-]+ is not valid/,
  );
  expect(ran.stdout).toContain(
    `postern rejected list --endpoint /hooks/github --config-dir ${postern.configDir}\n`,
  );
});

test("postern send for an endpoint without a configuration needs --secret", async () => {
  const ran = await sendHere("/hooks/other", "--preset", "github");
  expect(ran).toMatchObject({ code: 3, stdout: "" });
  expect(ran.stderr).toMatch(
    /secret is missing; use --secret env:NAME .*--config-dir for a configuration with this endpoint$/m,
  );
});

onlyInLongRun(() => {
  test("a --header has priority over the header of the signature", async () => {
    const ran = await sendHere("/hooks/github", "--header", "X-Hub-Signature-256: sha256=00");
    expect(ran).toMatchObject({ code: 1 });
    expect(ran.stdout).toMatch(/X-Hub-Signature-256 +sha256=00\n/);
  });

  test("postern send prints no secret, even if one is sent", async () => {
    const ran = await sendHere("/hooks/bearer");
    expect(ran).toMatchObject({ code: 0 });
    expect(ran.stdout).toMatch(/Authorization +Bearer \[secret\]\n/);
  });
});

test.each(
  sample([
    ["text", "it's $HOME `x`"],
    ["text that begins with @", "@x"],
  ]),
)("the curl command of --dry-run sends the same delivery: %s", needs("curl"), async (_what, body) => {
  const args = ["--header", "Content-Type: text/plain", "--dry-run"];
  const file = join(tempDir(), "body");
  writeFileSync(file, body);
  const { stdout } = await sendHere("/hooks/github", "--body", `@${file}`, ...args);
  expect(await webhooks.waiting()).toEqual([]);
  const ran = await promisify(execFile)("sh", ["-c", stdout]);
  expect(ran.stdout).toMatch(/^HTTP\/1\.1 202/);
  expect(Buffer.from((await webhooks.onlyCall()).body, "base64").toString()).toBe(body);
});

test("without its private key, postern send says that only the sender has it, and how to test nevertheless", async () => {
  const ran = await sendHere("/hooks/discord");
  expect(ran).toMatchObject({ code: 1, stdout: "" });
  expect(ran.stderr).toMatch(/private key \(ed25519\) that only the sender has.*openssl genpkey.*--key/);
});

test("a private key that does not match the endpoint's secret is refused, with the public key to configure", async () => {
  const { privateKey, publicKey } = generateKeyPairSync("ed25519");
  const file = join(tempDir(), "key.pem");
  writeFileSync(file, privateKey.export({ format: "pem", type: "pkcs8" }));
  const { code, stderr } = await sendHere("/hooks/discord", "--key", `file:${file}`);
  const half = publicKey.export({ format: "der", type: "spki" }).subarray(-32).toString("hex");
  expect([code, stderr]).toEqual([1, expect.stringContaining(half)]);
});

test.each(sample(["pem", "jwk"] as const))(
  "postern send signs an HTTP message with a private key in %s",
  async (format) => {
    const { privateKey, publicKey } = generateKeyPairSync("ed25519");
    const written = (key: typeof privateKey, type: "spki" | "pkcs8") =>
      format === "pem" ? String(key.export({ format, type })) : JSON.stringify(key.export({ format }));
    const endpoint = {
      ...{
        path: "/hooks/keys",
        auth: "http-signature",
        job_id: 5,
        public_url: "https://a.example/hooks/keys",
      },
      ...{ secret: written(publicKey, "spki"), http_signature: { algorithm: "ed25519" } },
    };
    const { address } = await webhooks.start({ endpoints: [endpoint] });
    const dir = tempDir();
    writeFileSync(join(dir, "webhooks.toml"), stringify({ endpoints: [endpoint] }));
    const sendAs = (key: string) =>
      runHere(
        ["send", "/hooks/keys", "--gateway", `http://${address}`, "--config-dir", dir, "--key", "env:KEY"],
        { KEY: key },
      );
    expect((await sendAs(written(privateKey, "pkcs8"))).stdout).toContain("accepted: job 5");
    const other = generateKeyPairSync("ed25519");
    const { code, stderr } = await sendAs(written(other.privateKey, "pkcs8"));
    expect([code, stderr]).toEqual([1, expect.stringContaining(pemOf(other.publicKey))]);
  },
);

test("an unknown path is refused with a suggestion", async () => {
  const { code, stderr } = await sendHere("/hooks/githb");
  expect([code, stderr]).toEqual([1, expect.stringMatching(/did you mean \/hooks\/github\?.*--preset/)]);
});

test("an unknown preset is refused with a suggestion", async () => {
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

const sendIssued = (path: string, key: string, ...more: string[]) =>
  runHere(["send", path, "--gateway", url, "--config-dir", postern.configDir, "--key", "env:KEY", ...more], {
    KEY: key,
  });

test("postern send signs a token with the key of --key, and does not print the key", async () => {
  const { code, stdout } = await sendIssued("/hooks/issued", pemOf(ISSUER.privateKey));
  expect([code, stdout]).toEqual([0, expect.stringMatching(/ {2}Authorization +Bearer \[secret\]\n/)]);
  await webhooks.onlyCall();
});

test("a key whose public half is not in the endpoint's key set is refused, with the public half to configure", async () => {
  const stranger = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const { code, stderr } = await sendIssued("/hooks/issued", pemOf(stranger.privateKey));
  const [half = ""] = /\{.*\}/.exec(stderr) ?? [];
  expect([code, JSON.parse(half)]).toEqual([
    1,
    { ...stranger.publicKey.export({ format: "jwk" }), kid: "test" },
  ]);
});

test("a key whose set is at a URL needs its name there, and a key of another kind is refused", async () => {
  const { stderr } = await sendIssued("/hooks/fetched", pemOf(ISSUER.privateKey));
  expect(stderr).toContain("--key must be a JWK with a kid: the endpoint fetches its keys from the URL");
  expect(stderr).not.toContain("https://issuer");
  const jwk = JSON.stringify({ ...ISSUER.privateKey.export({ format: "jwk" }), kid: "its" });
  const { stdout } = await sendIssued("/hooks/fetched", jwk, "--dry-run");
  const [, header = ""] = /Bearer ([\w-]+)\./.exec(stdout) ?? [];
  expect(JSON.parse(Buffer.from(header, "base64url").toString())).toMatchObject({ alg: "ES256", kid: "its" });
  const other = pemOf(generateKeyPairSync("ed25519").privateKey);
  expect((await sendIssued("/hooks/issued", other)).stderr).toContain("none of the endpoint's algorithms");
  expect((await sendIssued("/hooks/issued", "hello")).stderr).toContain("--key must be a private key");
  expect((await sendHere("/hooks/issued")).stderr).toMatch(
    /private key \(RS256 or ES256\) that only the sender has.*--key/,
  );
});

onlyInLongRun(() => {
  test("a token is signed with the algorithm that the endpoint's key set names for its key", async () => {
    const { privateKey, publicKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
    const jwks = JSON.stringify({
      keys: [{ ...publicKey.export({ format: "jwk" }), kid: "its", alg: "RS512" }],
    });
    const endpoint = { path: "/hooks/issued", ...ISSUED, jwks, algorithms: ["RS256", "RS512"] };
    const { address } = await webhooks.start({ endpoints: [endpoint] });
    const dir = tempDir();
    writeFileSync(join(dir, "webhooks.toml"), stringify({ endpoints: [endpoint] }));
    const args = ["--gateway", `http://${address}`, "--config-dir", dir, "--key", "env:KEY"];
    const { stdout } = await runHere(["send", "/hooks/issued", ...args], { KEY: pemOf(privateKey) });
    expect(stdout).toContain("202 Accepted");
  });
});

test("a preset whose tokens need an audience from a configuration says so", async () => {
  const { code, stderr } = await sendIssued("/x", "hello", "--preset", "google-pubsub");
  expect([code, stderr]).toEqual([3, expect.stringMatching(/audience is missing.*; use --config-dir/)]);
});
