import { expect, test } from "vitest";
import { loadConfig } from "../../../shared/config/config-dir.ts";
import type { Reader } from "../../../shared/config/read-postern.ts";
import { readWebhooks } from "../../../shared/config/read-webhooks.ts";
import { dirWith, problemsOf } from "./files.ts";

const WEBHOOKS = '[[endpoints]]\npath = "/a"\njob_id = 1\nauth = "none"\n';
const SECRETS = { A: "a".repeat(32), B: "b".repeat(32) };
const RUNNERS = `[runner]
secret = "env:A"
deliver_to = ["http://127.0.0.1:9091"]
[runners.reports]
url = "http://127.0.0.1:1"
secret = "env:B"
[jobs."7/1"]
runner = "reports"
`;

const files = (postern: string) => ({ "postern.toml": postern, "webhooks.toml": WEBHOOKS });
const load = (postern: string, env = {}, reader?: Reader) =>
  loadConfig(readWebhooks, { dir: dirWith(files(postern)), env, reader }).postern;
const problems = (postern: string, env = {}, reader?: Reader) => problemsOf(() => load(postern, env, reader));

const ON = `${RUNNERS}[results]\ndeliveries = true\n`;

test("a gateway reads the secrets of runners only if it accepts deliveries", () => {
  const off = load(RUNNERS, {}, "gateway");
  expect([off.runner.secret, off.runners["reports"]?.secret]).toEqual([undefined, undefined]);
  const { runner, runners } = load(ON, SECRETS, "gateway");
  expect([runner.secret?.[0]?.reveal(), runners["reports"]?.secret?.[0]?.reveal()]).toEqual([
    SECRETS.A,
    SECRETS.B,
  ]);
});

test.each(["pricing", "command"] as const)(
  "a %s reads no secret of a runner, even if gateways accept deliveries",
  (reader) => {
    const { runner, runners } = load(ON, {}, reader);
    expect([runner.secret, runners["reports"]?.secret]).toEqual([undefined, undefined]);
  },
);

test("a gateway that accepts deliveries does not start without the secret of each runner, and says what to do", () => {
  const without = ON.replace(/secret = .*\n/g, "").replace(/deliver_to.*\n/, "");
  for (const reader of ["gateway", undefined] as const)
    expect(problems(without, {}, reader)).toEqual([
      expect.stringMatching(/runner\.secret: is missing: .*set it, or set results\.deliveries = false/),
      expect.stringMatching(/runners\.reports\.secret: is missing: /),
    ]);
  for (const reader of ["producer", "runner", "pricing", "command"] as const) load(without, {}, reader);
});

test("a runner that must deliver needs a secret to sign with", () => {
  const unsigned = '[runner]\ndeliver_to = ["http://127.0.0.1:9091"]\n';
  expect(problems(unsigned, {}, "runner")).toEqual([
    expect.stringMatching(/runner\.deliver_to: needs secret, which signs/),
  ]);
  load(unsigned, {}, "gateway");
});
