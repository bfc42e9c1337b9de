import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import {
  environmentWarnings,
  failpointOf,
  loggingOf,
  withoutUnused,
} from "../../../../shared/platform/lifecycle/environment.ts";
import { tempDir } from "../../../support/temp-dir.ts";

test("a process logs at the level of POSTERN_LOG_LEVEL, and at info if the variable is absent or empty", () => {
  expect(loggingOf({ POSTERN_LOG_LEVEL: "warn" }).level).toBe("warn");
  expect([loggingOf({}), loggingOf({ POSTERN_LOG_LEVEL: "" })].map(({ level }) => level)).toEqual([
    "info",
    "info",
  ]);
});

test.each([
  ["verbose", ""],
  ["Warn", '; did you mean "warn"?'],
  ["eror", '; did you mean "error"?'],
])("the log level %s is refused with a list of the valid levels", (level, hint) => {
  expect(() => loggingOf({ POSTERN_LOG_LEVEL: level })).toThrow(
    expect.objectContaining({
      code: "start.config_invalid",
      message: `POSTERN_LOG_LEVEL: must be one of "info", "warn", "error", "silent", not "${level}"${hint}`,
    }),
  );
});

test("a process logs all calls unless POSTERN_LOG_CALLS sets a share", () => {
  const shares = ["", "0", "0.01", "1", "1.0"].map(
    (text) => loggingOf({ POSTERN_LOG_CALLS: text }).callShare,
  );
  expect([loggingOf({}).callShare, ...shares]).toEqual([1, 1, 0, 0.01, 1, 1]);
});

test.each(["1%", "1.5", "-0.1", "all", ".5", "1e-3", "NaN"])("the share of calls %s is refused", (share) => {
  expect(() => loggingOf({ POSTERN_LOG_CALLS: share })).toThrow(
    expect.objectContaining({
      code: "start.config_invalid",
      message: `POSTERN_LOG_CALLS: must be a number from 0 to 1 such as 0.01, not "${share}"`,
    }),
  );
});

test("an unknown failpoint is refused, and an empty one counts as unset", () => {
  expect(failpointOf({ POSTERN_FAILPOINT: "" })).toBeUndefined();
  expect(() => failpointOf({ POSTERN_FAILPOINT: "gateway.after_ad" })).toThrow(
    /^POSTERN_FAILPOINT: must be one of .*, not "gateway\.after_ad"; did you mean "gateway\.after_add"\?$/,
  );
});

test("an unused POSTERN_ variable gets a warning, with the variable that was probably meant", () => {
  const dir = tempDir();
  writeFileSync(join(dir, "webhooks.toml"), 'secret = ["env:POSTERN_GITHUB_SECRET"]\n');
  const env = {
    POSTERN_LOGLEVEL: "warn",
    POSTERN_GITHUB_SECRT: "x",
    POSTERN_GITHUB_SECRET: "x",
    POSTERN_ODD: "x",
  };
  expect(environmentWarnings(env, dir)).toEqual([
    "POSTERN_LOGLEVEL: this variable is not used; did you mean POSTERN_LOG_LEVEL?",
    "POSTERN_GITHUB_SECRT: this variable is not used; did you mean POSTERN_GITHUB_SECRET?",
    "POSTERN_ODD: this variable is not used",
  ]);
});

test("a child of a process that has warned gets every variable that may be read, and no other POSTERN_ variable", () => {
  const dir = tempDir();
  writeFileSync(join(dir, "webhooks.toml"), 'secret = ["env:POSTERN_GITHUB_SECRET", "env:POSTERN_A-B"]\n');
  const read = {
    ...{ POSTERN_GITHUB_SECRET: "x", "POSTERN_A-B": "x", POSTERN_LOG_LEVEL: "warn", PATH: "/bin" },
    ...{ POSTERN_SERVICE_HOST: "10.0.0.1", GITHUB_SECRET: "x" },
  };
  expect(withoutUnused({ ...read, POSTERN_ODD: "x", POSTERN_LOGLEVEL: "x" }, dir)).toEqual(read);
});

test("without a configuration directory only names that look misspelt get a warning", () => {
  const env = { POSTERN_LOGLEVEL: "warn", POSTERN_PRICING_KEY: "x", POSTERN_GITHUB_SECRET: "x" };
  expect(environmentWarnings(env, undefined)).toEqual([
    "POSTERN_LOGLEVEL: this variable is not used; did you mean POSTERN_LOG_LEVEL?",
  ]);
});

test("variables that the program reads, that Kubernetes sets, or that belong to other programs get no warning", () => {
  const env = {
    ...{ POSTERN_CONFIG_DIR: "x", POSTERN_PAYER_KEY: "x", POSTERN_SERVICE_ID: "1", POSTERN_NO_INSTALL: "1" },
    ...{ POSTERN_SERVICE_HOST: "10.0.0.1", POSTERN_SERVICE_PORT: "9090", POSTERN_SERVICE_PORT_HTTP: "9090" },
    ...{ POSTERN_PORT: "tcp://10.0.0.1:9090", POSTERN_PORT_9090_TCP_ADDR: "10.0.0.1", PATH: "/bin" },
    ...{ POSTERN_WEBHOOKS_SERVICE_HOST: "10.0.0.2", POSTERN_WEBHOOKS_PORT_9090_TCP: "tcp://10.0.0.2:9090" },
  };
  expect(environmentWarnings(env, "/does/not/exist")).toEqual([]);
});

test("variables that postern dev tells users to set for a runner get no warning in the same terminal", () => {
  const env = { POSTERN_RUNNER_SECRET: "x", POSTERN_DELIVER_TO: "http://127.0.0.1:9091" };
  expect(environmentWarnings(env, "/does/not/exist")).toEqual([]);
});
