import { expect, test } from "vitest";
import { loadConfig } from "../../../shared/config/config-dir.ts";
import { readOperator } from "../../../shared/config/read-operator.ts";
import { readWebhooks } from "../../../shared/config/read-webhooks.ts";
import { readX402 } from "../../../shared/pricing/read-x402.ts";
import { dirWith, type Files, problemsOf } from "./files.ts";

const load = (files: Files) => problemsOf(() => loadConfig(readWebhooks, { dir: dirWith(files), env: {} }));
const endpoint = (lines: string) => `[[endpoints]]\n${lines}\n`;
const GOOD = 'path = "/a"\njob_id = 1\nauth = "bearer"\nsecret = "a secret of our own 0123"';

/** Faults of one table; each must be found beside any other. */
const FAULTS: [what: string, line: string, instead: RegExp, problem: string][] = [
  ["a missing variable", 'secret = "env:ABSENT"', /secret = .*/, "secret: names the environment variable"],
  ["a missing job_id", "", /job_id = 1/, "job_id: is missing: set job_id or route_by"],
  ["a wrong path", 'path = "b"', /path = .*/, "path: must start with /"],
  ["an unknown key", "$&\nsecert = 1", /auth = .*/, "secert: unknown key"],
  ["a key between others", "$&\nwait_secs = 3", /auth = .*/, "wait_secs: is not used"],
  ["a text for a number", '$&\nbody_limit_bytes = "1"', /auth = .*/, "body_limit_bytes: must be"],
];

test.each(
  FAULTS.flatMap((one, at) => FAULTS.slice(at + 1).map((other) => [one[0], other[0], one, other] as const)),
)("both faults of an endpoint are reported: %s, and %s", (_one, _other, one, other) => {
  const lines = [one, other].reduce((text, [, line, instead]) => text.replace(instead, line), GOOD);
  const found = load({ "webhooks.toml": endpoint(lines) });
  expect(found).toHaveLength(2);
  for (const [, , , problem] of [one, other]) expect(found.join("\n")).toContain(problem);
});

test("an unknown sender does not hide problems of the endpoint's other keys", () => {
  const lines =
    'path = "hooks"\npreset = "githbu"\nsecret = "env:ABSENT"\nrate_limit = 5\nwait_secs = 3\nwait = 3\ncallback_url = "https://example.com/"\ncallback_hosts = ["example.com"]';
  const found = load({ "webhooks.toml": endpoint(lines) });
  expect(found).toHaveLength(8);
  for (const problem of [
    "job_id: is missing: set job_id or route_by",
    "path: must start with /",
    "preset: must be a known preset, not",
    "rate_limit: must be a table",
    "secret: names the environment variable",
    "wait: unknown key; did you mean wait_secs?",
    "wait_secs: is not used",
    "callback_hosts: is not used",
  ])
    expect(found.join("\n")).toContain(problem);
});

test("a missing secret in postern.toml hides no other problem of the file, and none between the files", () => {
  const found = load({
    "postern.toml": [
      '[runner]\nsecret = "env:ABSENT"\ntimeout_ms = 30000\nanswer_secs = 9\nmemory_secs = 3',
      '[redis]\nurl = "env:ABSENT"\ndurability = "relaxed"\nmaster_name = "x"',
      "[producer.backoff]\nbase_ms = 9\ncap_ms = 1",
      '[jobs."1/1"]\nrunner = "other"',
      "[results]\nwait_secs_max = 1",
    ].join("\n"),
    "webhooks.toml": endpoint(
      `${GOOD}\nrespond = "result"\nforward_headers = ["X-Platform-Y"]\ncallback_url = "https://example.com/"`,
    ),
  });
  for (const problem of [
    "runner.secret: names the environment variable ABSENT",
    "redis.url: names the environment variable ABSENT",
    "runner.timeout_ms: must be below producer.lock_ms",
    "runner.answer_secs: must be at most memory_secs",
    "redis.master_name: is not used",
    "producer.backoff.cap_ms: must be at least base_ms",
    'jobs.1/1.runner: must be a configured runner, not "other"',
    "respond: waits for 3 s, but results.wait_secs_max of postern.toml is 1",
    "forward_headers[0]: must not start with metadata_prefix",
    "callback_url: needs [callbacks]",
  ])
    expect(found.join("\n")).toContain(problem);
  expect(found).toHaveLength(10);
});

test("a wrong value does not cause false problems of a key that depends on it", () => {
  expect(load({ "postern.toml": '[runner]\ntimeout_ms = 30000\n[producer]\nlock_ms = "60 s"' })).toEqual([
    expect.stringContaining("producer.lock_ms: must be"),
  ]);
  expect(
    load({
      "postern.toml": '[callbacks]\nsecret = "env:ABSENT"',
      "webhooks.toml": endpoint(`${GOOD}\ncallback_url = "https://example.com/"`),
    }),
  ).toEqual([expect.stringContaining("callbacks.secret: names the environment variable")]);
  expect(
    load({
      "webhooks.toml": endpoint(
        'path = "/a"\njob_id = 1\nauth = "signature"\nsecret = "a secret of our own 0123"\npublic_url = "https://a.example/"\n[endpoints.signature]\nheader = "X"\nalgorithm = "md5"\nsigned = "{url}{body}"',
      ),
    }),
  ).toEqual([expect.stringContaining("signature.algorithm: must be")]);
});

test("a wrong token in operator.toml hides neither an open address nor a repeated name", () => {
  const dir = dirWith({
    "operator.toml":
      'session_secs = 1\n[[tokens]]\nname = "a"\nrole = "viewer"\ntoken = "env:ABSENT"\n[[tokens]]\nname = "a"\nrole = "viewer"\ntoken = "a-token-of-our-own-0123"',
  });
  expect(problemsOf(() => loadConfig(readOperator, { dir, env: {} }))).toEqual([
    expect.stringContaining("session_secs: must be at least 60"),
    expect.stringContaining("tokens[0].token: names the environment variable"),
    expect.stringContaining("tokens[1].name: must be unique: another token has this name"),
  ]);
});

test("a missing secret in postern.toml does not hide jobs with callbacks but without [callbacks]", () => {
  const dir = dirWith({
    "postern.toml": '[runner]\nsecret = "env:ABSENT"',
    "job_pricing.toml": '[1]\n7 = { price_wei = "1000000000000000", callback_url = "https://example.com/" }',
  });
  expect(problemsOf(() => loadConfig(readX402, { dir, env: {} }))).toEqual([
    expect.stringContaining("postern.toml: runner.secret: names the environment variable"),
    expect.stringContaining("job_pricing.toml: 1.7.callback_url: needs [callbacks]"),
  ]);
});

test.each([
  [
    "a job whose name is wrong",
    '[runners.fast]\nurl = "http://127.0.0.1:1"\n[jobs."7"]\nrunner = "fast"',
    ["jobs.7: must be <service id>"],
  ],
  [
    "a runner whose name is wrong",
    '[runners."a b"]\nurl = "http://127.0.0.1:1"\n[jobs."7/1"]\nrunner = "a b"',
    ["runners.a b: must be 1 to 64 letters"],
  ],
  [
    "a misspelt key",
    '[runners.fast]\nurl = "http://127.0.0.1:1"\n[jobs."7/1"]\nruner = "fast"',
    ["jobs.7/1.runer: unknown key; did you mean runner?"],
  ],
  [
    "a misspelt key with a default",
    "[runner]\ntimeout_m = 5000\n[producer]\nlock_ms = 10000",
    ["runner.timeout_m: unknown key; did you mean timeout_ms?"],
  ],
])("%s does not cause false problems of the keys that depend on it", (_what, text, problems) => {
  expect(load({ "postern.toml": text })).toEqual(problems.map((problem) => expect.stringContaining(problem)));
});

test("a wrong key of x402.toml does not hide a body limit above the budget in postern.toml", () => {
  const dir = dirWith({
    "postern.toml": "[http]\nbody_budget_bytes = 1000",
    "x402.toml": "typo_key = 1\nbody_limit_bytes = 60000000",
  });
  const found = problemsOf(() => loadConfig(readX402, { dir, env: {} }));
  expect(found).toContainEqual(expect.stringContaining("http.body_budget_bytes: must be at least 60000000"));
  const wrong = dirWith({
    "postern.toml": "[http]\nbody_budget_bytes = 1000",
    "x402.toml": 'body_limit_bytes = "1"',
  });
  expect(problemsOf(() => loadConfig(readX402, { dir: wrong, env: {} })).join("\n")).not.toContain("http.");
});

test.each([
  [
    "a job",
    '[jobs."7/1"]\ntimeout_ms = "x"\n[jobs."7/2"]\nrunner = "fasst"\n[jobs."7/3"]\ntimeout_ms = 99999\n[jobs."8"]',
    [
      "jobs.7/1.timeout_ms: must be",
      "jobs.7/2.runner: must be a configured runner",
      "jobs.7/3.timeout_ms: must be",
      "jobs.8: must be",
    ],
  ],
  [
    "a key that jobs are judged by",
    '[producer]\nlock_ms = "x"\n[jobs."7/2"]\nrunner = "fasst"',
    ["producer.lock_ms: must be", "jobs.7/2.runner: must be a configured runner"],
  ],
])("a wrong value of %s does not hide problems of other jobs", (_what, text, problems) => {
  expect(load({ "postern.toml": text })).toEqual(problems.map((problem) => expect.stringContaining(problem)));
});

test.each(['forward_headers = ["a b"]', 'preset = "githbu"'])(
  "a wrong key of an endpoint does not hide problems between postern.toml and other endpoints: %s",
  (line) => {
    const other = GOOD.replace("/a", "/b");
    const problems = load({
      "postern.toml": "[http]\nbody_budget_bytes = 10",
      "webhooks.toml":
        endpoint(`${GOOD}\n${line}`) +
        endpoint(
          `${other}\nforward_headers = ["X-Platform-Y"]\nkeep_result = true\nbody_limit_bytes = 2000000\ncallback_url = "https://example.com/"`,
        ),
    });
    expect(problems).toHaveLength(5);
    for (const problem of [
      "http.body_budget_bytes: must be at least 2000000, the largest body of endpoint /b",
      "endpoint /b: forward_headers[0]: must not start with metadata_prefix",
      "endpoint /b: keep_result: needs results.secret",
      "endpoint /b: callback_url: needs [callbacks]",
    ])
      expect(problems.join("\n")).toContain(problem);
  },
);

test("a wrong key of an endpoint does not hide problems of its other keys in the same rule", () => {
  const lines = [
    'event_type = "{nothing}"\ndelivery_id = "{header:Authorization}"',
    'forward_headers = ["Authorization", "a b"]',
  ];
  expect(load({ "webhooks.toml": endpoint(`${GOOD}\n${lines.join("\n")}`) })).toEqual([
    expect.stringContaining("event_type: "),
    expect.stringContaining("delivery_id: must not read the credential's header"),
    expect.stringContaining("forward_headers[1]: "),
    expect.stringContaining("forward_headers[0]: must not be the credential's header"),
  ]);
});

test("a wrong token in operator.toml does not hide a secret that other tokens share", () => {
  const tokens = ['"env:ABSENT"', '"a-token-of-our-own-0123"', '"a-token-of-our-own-0123"'].map(
    (token, at) => `[[tokens]]\nname = "t${at}"\nrole = "viewer"\ntoken = ${token}\n`,
  );
  const dir = dirWith({ "operator.toml": tokens.join("") });
  expect(problemsOf(() => loadConfig(readOperator, { dir, env: {} }))).toEqual([
    expect.stringContaining("tokens[0].token: names the environment variable"),
    expect.stringContaining("tokens[2].token: must be unique: another name has this token"),
  ]);
});

test("a wrong key of a job for sale does not hide its other problems", () => {
  const job = (line: string) => `{ price_wei = "1", name = "a", callback_url = "http://10.0.0.1/", ${line} }`;
  const dir = dirWith({
    "postern.toml": '[callbacks]\nsecret = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="',
    "job_pricing.toml": `[1]\n1 = ${job("descripton = 'x'")}\n2 = ${job("keep_result = 1")}`,
  });
  expect(problemsOf(() => loadConfig(readX402, { dir, env: {} }))).toEqual([
    expect.stringContaining("1.1.descripton: unknown key"),
    expect.stringContaining("1.1.callback_url: must be an https URL of a public address"),
    expect.stringContaining("1.2.keep_result: must be true or false"),
    expect.stringContaining("1.2.name: must be unique: job 1/1 has this name"),
    expect.stringContaining("1.2.callback_url: must be an https URL of a public address"),
  ]);
});

test("a wrong price or id of a job for sale does not hide its other problems", () => {
  const table = [
    '[1]\n1 = { price_wei = 5, name = "a", keep_result = 1, callback_url = "http://10.0.0.1/" }',
    '2 = { price_wei = "1", name = "a" }\n"1.5" = { price_wei = "0", description = "" }',
    '[x]\n3 = { price_wei = "x" }',
  ];
  const dir = dirWith({
    "postern.toml": '[callbacks]\nsecret = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="',
    "job_pricing.toml": table.join("\n"),
  });
  const found = problemsOf(() => loadConfig(readX402, { dir, env: {} }));
  expect(found).toHaveLength(9);
  for (const problem of [
    "1.1.price_wei: must be quoted",
    "1.1.keep_result: must be true or false",
    "1.1.callback_url: must be an https URL of a public address",
    "1.2.name: must be unique: job 1/1 has this name",
    "1.1.5: must be a job index",
    "1.1.5.price_wei: must be above 0",
    "1.1.5.description: is empty",
    "x: must be a service id",
    "x.3.price_wei: must be an integer in wei",
  ])
    expect(found.join("\n")).toContain(problem);
});

test.each([
  ["[[facilitator]]", "facilitator"],
  ["facilitatr_url = 1", "facilitatr_url"],
])("a facilitator with a misspelt key is not also reported as missing: %s", (line, key) => {
  const dir = dirWith({ "x402.toml": line });
  const found = problemsOf(() => loadConfig(readX402, { dir, env: {} })).join("\n");
  expect(found).toContain(`${key}: unknown key`);
  expect(found).not.toContain("set facilitator_url or [[facilitators]]");
});

test.each([
  ["of an endpoint", { "webhooks.toml": endpoint(GOOD.replace("job_id", "job_idd")) }, "job_idd"],
  ["of auth", { "webhooks.toml": endpoint('path = "/a"\njob_id = 1\nauht = "none"') }, "auht"],
  ["of a secret", { "webhooks.toml": endpoint(GOOD.replace("secret", "secert")) }, "secert"],
  [
    "of an endpoint whose sender is not known",
    { "webhooks.toml": endpoint('path = "/a"\njob_idd = 1\npreset = "github"\nauth = 1') },
    "job_idd",
  ],
  [
    "between tables",
    { "postern.toml": '[runner]\nsecrt = "x"\ndeliver_to = ["http://127.0.0.1:1"]' },
    "secrt",
  ],
])("a misspelt key is not also reported as missing: %s", (_what, files, key) => {
  const found = load(files);
  expect(found.join("\n")).toContain(`${key}: unknown key; did you mean`);
  expect(found.join("\n")).not.toMatch(/is missing|needs secret/);
});
