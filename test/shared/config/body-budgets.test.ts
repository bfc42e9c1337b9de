import { afterEach, expect, test, vi } from "vitest";
import { loadConfig } from "../../../shared/config/config-dir.ts";
import { readPostern } from "../../../shared/config/read-postern.ts";
import { readWebhooks } from "../../../shared/config/read-webhooks.ts";
import { dirWith, problemsOf } from "./files.ts";

const MIB = 1024 * 1024;

afterEach(() => vi.restoreAllMocks());

/** Loads the configuration of a process in a container with this memory limit; 0 means none. */
function inContainer(mebibytes: number, reader: "gateway" | "producer" | "operator", toml = "") {
  vi.spyOn(process, "constrainedMemory").mockReturnValue(mebibytes * MIB);
  const { postern, warnings } = loadConfig(readPostern, {
    dir: dirWith({ "postern.toml": toml }),
    env: {},
    reader,
  });
  return { http: postern.http.body_budget_bytes, producer: postern.producer.body_budget_bytes, warnings };
}

test.each([0, 800, 4096])(
  "a gateway in a container of %i MiB, where 0 means no limit, has the default budget of bodies",
  (limit) => {
    expect(inContainer(limit, "gateway")).toEqual({ http: 256 * MIB, producer: 256 * MIB, warnings: [] });
  },
);

test("a gateway and a producer in a smaller container each have a smaller budget of bodies", () => {
  const gateway = inContainer(512, "gateway");
  expect([gateway.http, gateway.producer, gateway.warnings]).toEqual([
    Math.floor((352 * MIB) / 2.5),
    256 * MIB,
    [],
  ]);
  expect(inContainer(512, "producer")).toEqual({ http: 256 * MIB, producer: 256 * MIB, warnings: [] });
  const producer = inContainer(300, "producer");
  expect([producer.http, producer.producer]).toEqual([256 * MIB, Math.floor((140 * MIB) / 1.375)]);
});

test("the memory of one process does not change the budgets of other processes in the same file", () => {
  expect(inContainer(128, "operator")).toEqual({ http: 256 * MIB, producer: 256 * MIB, warnings: [] });
});

test("a budget in the file is used unchanged, and a warning says how much memory it needs and what would fit", () => {
  const toml = `[http]\nbody_budget_bytes = ${256 * MIB}\n`;
  const { http, warnings } = inContainer(512, "gateway", toml);
  expect(http).toBe(256 * MIB);
  expect(warnings).toEqual([
    `postern.toml: http.body_budget_bytes: 268435456 bytes need 800 MiB of memory, and this process has 512 MiB: set it to at most ${Math.floor((352 * MIB) / 2.5)}, or give it more memory`,
  ]);
});

test("a process with very little memory has a budget of 8 MiB, and a warning", () => {
  const { http, warnings } = inContainer(128, "gateway");
  expect([http, warnings]).toEqual([
    8 * MIB,
    [
      "postern.toml: http.body_budget_bytes: 8388608 bytes need 180 MiB of memory, and this process has 128 MiB: give it more memory",
    ],
  ]);
});

test("a gateway whose memory is too small for its largest body does not start", () => {
  vi.spyOn(process, "constrainedMemory").mockReturnValue(200 * MIB);
  const webhooks = `[[endpoints]]\npath = "/a"\njob_id = 1\nauth = "none"\nbody_limit_bytes = ${25 * MIB}\n`;
  const dir = dirWith({ "webhooks.toml": webhooks });
  expect(problemsOf(() => loadConfig(readWebhooks, { dir, env: {}, reader: "gateway" }))).toEqual([
    `postern.toml: http.body_budget_bytes: must be at least ${25 * MIB}, the largest body of endpoint /a`,
  ]);
});
