import { expect, test } from "vitest";
import { loadConfig } from "../../../shared/config/load-config.ts";
import { dirWith, type Files, problemsOf } from "./files.ts";

const problems = (files: Files) => problemsOf(() => loadConfig({ dir: dirWith(files), env: {} }));

test("a forwarded_header that no proxy may set is refused", () => {
  expect(problems({ "postern.toml": '[http]\nforwarded_header = "Forwarded"' })).toEqual([
    "postern.toml: http.forwarded_header: is not used: trusted_proxies names no proxy",
  ]);
});

test("a forwarded_header is X-Forwarded-For, if nothing else is said", () => {
  const http = (lines: string) =>
    loadConfig({
      dir: dirWith({ "postern.toml": `[http]\ntrusted_proxies = ["10.0.0.1"]\n${lines}` }),
      env: {},
    }).postern.http.forwarded_header;
  expect(http("")).toBe("X-Forwarded-For");
  expect(http('forwarded_header = "Forwarded"')).toBe("Forwarded");
});

test.each([
  ["0.0.0.0/1", "128.0.0.0/1"],
  ["0.0.0.0/8", "0.0.0.0/1", "128.0.0.0/1", "128.0.0.0/1"],
  ["10.0.0.0/8", "0.0.0.0/2", "64.0.0.0/2", "192.0.0.0/2", "128.0.0.0/2"],
  ["::/1", "8000::/1", "10.0.0.0/8"],
])("proxies that are everybody together are refused: %s", (...ranges) => {
  const toml = `[http]\ntrusted_proxies = ${JSON.stringify(ranges)}`;
  expect(problems({ "postern.toml": toml })).toEqual([
    expect.stringContaining("postern.toml: http.trusted_proxies: trust everybody together"),
  ]);
});

test("many proxies may be trusted that are not everybody", () => {
  const ranges = ["0.0.0.0/1", "128.0.0.0/2", "0.0.0.0/1", "64.0.0.0/2", "::/1"];
  expect(problems({ "postern.toml": `[http]\ntrusted_proxies = ${JSON.stringify(ranges)}` })).toEqual([]);
});

const MIB = 1024 * 1024;
const budget = (bytes: number) => `[http]\nbody_budget_bytes = ${bytes}`;
const endpoint = (path: string, keys = "") =>
  `[[endpoints]]\npath = "${path}"\njob_id = 1\nauth = "none"\n${keys}\n`;

test.each([
  [MIB - 1, endpoint("/a"), `is below ${MIB}, which one body of endpoints[0] (/a) may take`],
  [
    2 * MIB,
    endpoint("/a") + endpoint("/b", `body_limit_bytes = ${3 * MIB}`),
    `is below ${3 * MIB}, which one body of endpoints[1] (/b) may take`,
  ],
  [
    2 * MIB - 1,
    endpoint("/a", 'encoded_bodies = "decode"'),
    `is below ${2 * MIB}, which one body of endpoints[0] (/a), received and decoded, may take`,
  ],
])("a budget of %i bytes that is too small for one body is refused", (bytes, webhooks, problem) => {
  expect(problems({ "postern.toml": budget(bytes), "webhooks.toml": webhooks })).toEqual([
    `postern.toml: http.body_budget_bytes: ${problem}`,
  ]);
});

test("a budget that the largest body just fits is taken", () => {
  const webhooks = endpoint("/a", `body_limit_bytes = ${MIB}\nencoded_bodies = "decode"`);
  expect(problems({ "postern.toml": budget(2 * MIB), "webhooks.toml": webhooks })).toEqual([]);
});
