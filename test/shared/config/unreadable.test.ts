import { mkdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { loadConfig } from "../../../shared/config/config-dir.ts";
import { readOperator } from "../../../shared/config/read-operator.ts";
import { readWebhooks } from "../../../shared/config/read-webhooks.ts";
import { environmentWarnings, requireUtf8 } from "../../../shared/platform/lifecycle/environment.ts";
import { readX402 } from "../../../shared/pricing/read-x402.ts";
import { sample } from "../../support/long-run.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { dirWith, problemsOf } from "./files.ts";

const withSecret = (value: string) =>
  `[[endpoints]]\npath = "/a"\njob_id = 1\nauth = "bearer"\nsecret = ${JSON.stringify(value)}\n`;
const TEXT = "a secret that is long enough";
const utf16 = (text: string) => Buffer.from(text, "utf16le");

const NOT_TEXT: [what: string, make: (text: string) => Buffer, remedy: string][] = [
  ["Latin-1", (text) => Buffer.from(`# caf\u00e9\n${text}`, "latin1"), "save it as UTF-8"],
  ["UTF-16 with a mark", (text) => utf16(`\ufeff${text}`), "save it as UTF-8 (in PowerShell"],
  ["UTF-16, high byte first", (text) => utf16(`\ufeff${text}`).swap16(), "save it as UTF-8 (in PowerShell"],
  ["UTF-16 without a mark", utf16, "save it as UTF-8, without NUL"],
  ["U+FFFD of an earlier program", (text) => Buffer.from(`# \ufffd\n${text}`), "write it again as UTF-8"],
];

describe.each(sample(NOT_TEXT, 2))("%s", (_what, make, remedy) => {
  test("a configuration file that is not UTF-8 is refused with the remedy, even if it is optional", () => {
    const dir = tempDir();
    writeFileSync(join(dir, "postern.toml"), make("drain_secs = 1\n"));
    writeFileSync(join(dir, "webhooks.toml"), make(withSecret(TEXT)));
    expect(problemsOf(() => loadConfig(readWebhooks, { dir, env: {} }))).toEqual([
      expect.stringMatching(/^postern\.toml: (?:is|contains) /),
      expect.stringContaining(remedy),
    ]);
  });

  test("a secret's file that is not UTF-8 is refused with the remedy", () => {
    const dir = dirWith({ "webhooks.toml": withSecret("file:secret") });
    writeFileSync(join(dir, "secret"), make(TEXT));
    expect(problemsOf(() => loadConfig(readWebhooks, { dir, env: {} }))).toEqual([
      expect.stringMatching(/^webhooks\.toml: endpoint \/a: secret: names a file that (?:is|contains) /),
    ]);
    expect(problemsOf(() => loadConfig(readWebhooks, { dir, env: {} }))[0]).toContain(remedy);
  });

  test("a job's schema that is not UTF-8 is refused", () => {
    const dir = dirWith({
      "job_pricing.toml": '[1]\n7 = { price_wei = "1000000000000000", input_schema = "s.json" }',
    });
    writeFileSync(join(dir, "s.json"), make('{"type":"object"}'));
    expect(problemsOf(() => loadConfig(readX402, { dir, env: {} }))).toEqual([
      expect.stringMatching(/^job_pricing\.toml: 1\.7\.input_schema: must be JSON \((?:is|contains) /),
    ]);
  });
});

test("a key file of 32 raw bytes is refused, with the advice to write it as hex or base64", () => {
  const dir = dirWith({ "webhooks.toml": withSecret("file:key") });
  writeFileSync(join(dir, "key"), Buffer.alloc(32, 0xa7));
  expect(problemsOf(() => loadConfig(readWebhooks, { dir, env: {} }))).toEqual([
    expect.stringContaining("write raw bytes as hex or base64"),
  ]);
});

test("a UTF-8 byte order mark is removed from a file or a secret, and so is a Windows line break at its end", () => {
  const dir = tempDir();
  writeFileSync(join(dir, "webhooks.toml"), `\ufeff${withSecret("file:secret").replaceAll("\n", "\r\n")}`);
  writeFileSync(join(dir, "secret"), `\ufeff${TEXT}\r\n`);
  const [endpoint] = loadConfig(readWebhooks, { dir, env: {} }).webhooks?.endpoints ?? [];
  expect(endpoint?.auth === "bearer" && endpoint.secret[0]?.reveal()).toBe(TEXT);
});

test("a secret that contains U+FFFD or NUL is refused as a variable, as text and as an escape", () => {
  const env = { HOOK: "caf\ufffd of our own 0123456789" };
  for (const value of ["env:HOOK", "caf\ufffd", "nul\0 nul 0123456789"]) {
    const dir = dirWith({ "webhooks.toml": withSecret(value) });
    expect(
      problemsOf(() => loadConfig(readWebhooks, { dir, env })),
      value,
    ).toHaveLength(1);
  }
  const dir = dirWith({ "webhooks.toml": withSecret("X").replace('"X"', '"a \\uFFFD of our own 0123456"') });
  expect(problemsOf(() => loadConfig(readWebhooks, { dir, env }))).toEqual([
    expect.stringContaining("U+FFFD"),
  ]);
});

test("a variable of the program that is not UTF-8 is refused with its name, but not another program's variable", () => {
  expect(() => requireUtf8({ POSTERN_OPERATOR_TOKEN: "t\ufffdken" })).toThrow(
    /^POSTERN_OPERATOR_TOKEN: contains U\+FFFD.*write it again as UTF-8/,
  );
  expect(() => requireUtf8({ LESSCHARSET: "caf\ufffd", POSTERN_CONFIG_DIR: "caf\u00e9" })).not.toThrow();
});

const CANNOT_BE_READ: [what: string, put: (path: string) => void, why: string][] = [
  [
    "a link that leads nowhere",
    (path) => symlinkSync("/does/not/exist", path),
    "a symbolic link to a file that does not exist",
  ],
  ["a link to itself", (path) => symlinkSync(path, path), "ELOOP"],
  ["a directory", (path) => mkdirSync(path), "EISDIR"],
  ["a device without an end", (path) => symlinkSync("/dev/zero", path), "is longer than 16777216 bytes"],
];

const FILES = [
  ["postern.toml", readWebhooks],
  ["x402.toml", readX402],
  ["webhooks.toml", readWebhooks],
  ["operator.toml", readOperator],
  ["job_pricing.toml", readX402],
] as const;

describe.each(CANNOT_BE_READ)("%s", (_what, put, why) => {
  test.each(sample(FILES, 2))(
    "in the place of %s is a problem, and does not count as an absent file",
    (name, read) => {
      const dir = tempDir();
      put(join(dir, name));
      expect(problemsOf(() => loadConfig<unknown>(read, { dir, env: {} }))).toEqual([
        expect.stringMatching(new RegExp(`^${name}: .*${why}`)),
      ]);
    },
  );

  test("in the place of a secret's file is a problem", () => {
    const dir = dirWith({ "webhooks.toml": withSecret("file:secret") });
    put(join(dir, "secret"));
    expect(problemsOf(() => loadConfig(readWebhooks, { dir, env: {} }))).toEqual([
      expect.stringContaining(why),
    ]);
  });

  test("does not break the search for unused variables", () => {
    const dir = tempDir();
    put(join(dir, "webhooks.toml"));
    expect(environmentWarnings({ POSTERN_ODD: "x" }, dir)).toEqual([]);
  });
});

test("a configuration directory that is a file, or a link to nothing, is a problem", () => {
  const [dangling, file] = [join(tempDir(), "config"), join(tempDir(), "config")];
  symlinkSync("/does/not/exist", dangling);
  writeFileSync(file, "");
  expect(() => loadConfig(readWebhooks, { dir: dangling, env: {} })).toThrow(
    "config: cannot be read (ENOENT",
  );
  expect(() => loadConfig(readWebhooks, { dir: file, env: {} })).toThrow("config: cannot be read (ENOTDIR");
});

test("hidden files of editors and of macOS do not stop a start, but a misspelt file does", () => {
  const dir = dirWith({ "webhooks.toml": withSecret(TEXT), "._webhooks.toml": "\0\x05\x16\x07" });
  symlinkSync("me@host.123:456", join(dir, ".#webhooks.toml"));
  expect(loadConfig(readWebhooks, { dir, env: {} }).webhooks?.endpoints).toHaveLength(1);
  expect(environmentWarnings({ POSTERN_ODD: "x" }, dir)).toHaveLength(1);
  writeFileSync(join(dir, "webhook.toml"), "");
  expect(problemsOf(() => loadConfig(readWebhooks, { dir, env: {} }))).toEqual([
    expect.stringContaining("is not a Postern file"),
  ]);
});

describe("a relative path of a secret's file", () => {
  const NAME = "postern-relative-secret-of-a-test";
  const here = join(process.cwd(), NAME);

  test("starts at the configuration directory, which may be a link, and may lead outside of it", () => {
    const home = tempDir();
    mkdirSync(join(home, "real"));
    symlinkSync("real", join(home, "config"));
    writeFileSync(join(home, "real", "webhooks.toml"), withSecret("file:secrets/../../hook"));
    mkdirSync(join(home, "real", "secrets"));
    writeFileSync(join(home, "hook"), TEXT);
    const { webhooks } = loadConfig(readWebhooks, { dir: join(home, "config"), env: {} });
    expect(webhooks?.endpoints[0]).toHaveProperty("secret.length", 1);
  });

  test("is refused if the working directory has another file with that path, but not if it is the same file", ({
    onTestFinished,
  }) => {
    onTestFinished(() => rmSync(here, { force: true }));
    const dir = dirWith({ "webhooks.toml": withSecret(`file:${NAME}`) });
    writeFileSync(here, "a secret of the working directory");
    expect(problemsOf(() => loadConfig(readWebhooks, { dir, env: {} }))).toEqual([
      expect.stringContaining(`start at the configuration directory, so ${here} is not read`),
    ]);
    writeFileSync(join(dir, NAME), TEXT);
    expect(problemsOf(() => loadConfig(readWebhooks, { dir, env: {} }))).toEqual([
      expect.stringContaining(`names two files, ${join(dir, NAME)} and ${here}`),
    ]);
    rmSync(here);
    symlinkSync(join(dir, NAME), here);
    expect(loadConfig(readWebhooks, { dir, env: {} }).webhooks?.endpoints).toHaveLength(1);
  });
});
