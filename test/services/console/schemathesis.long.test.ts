import { execFile, execFileSync } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { openEndpointTests } from "../../../shared/ingress/endpoint-tests.ts";
import { TOKENS, useOperator } from "../../fixtures/console.ts";
import { useFailedCalls } from "../../fixtures/failed-calls.ts";
import { livelyConfig, useLively } from "../../fixtures/lively.ts";
import { useRedis } from "../../fixtures/redis.ts";
import { needs, pathOf } from "../../support/needs.ts";
import { tempDir } from "../../support/temp-dir.ts";

const VERSION = "4.32.5";
const VENV = fileURLToPath(new URL(`../../../.cache/schemathesis/${VERSION}`, import.meta.url));
const PROGRAM = join(VENV, "bin/schemathesis");

const CHECKS = [
  ...["not_a_server_error", "status_code_conformance", "content_type_conformance"],
  ...["response_schema_conformance", "response_headers_conformance"],
  ...["negative_data_rejection", "unsupported_method", "allow_header_conformance"],
];

/** A request that contradicts the document may also be too long for the server, or reach a limit. */
const CONFIG = `
[checks.negative_data_rejection]
expected-statuses = [400, 401, 403, 404, 405, 409, 413, 415, 429, 431]
`;

/** Limit on the requests of each phase for each operation. */
const EXAMPLES = 100;

const redis = useRedis();
const calls = useFailedCalls({ redis, fresh: "file" });
const lively = useLively({ redis, calls });
const fixture = useOperator({ redis });

/** Installs Schemathesis once, in a separate environment. */
function install(): void {
  if (existsSync(PROGRAM)) return;
  execFileSync(pathOf("python"), ["-m", "venv", "--clear", VENV]);
  execFileSync(join(VENV, "bin/python"), ["-m", "pip", "install", "--quiet", `schemathesis==${VERSION}`]);
}

/** Answers tests of endpoints in place of a gateway. An unanswered test takes ten seconds, and Schemathesis orders hundreds. */
function answerTests(): NodeJS.Timeout {
  const tests = openEndpointTests(redis.partition);
  const outcome = { status: 202, accepted: true, detail: "accepted", call_id: null };
  return setInterval(async () => {
    for (const order of await tests.take(Date.now())) await tests.report(order, outcome);
  }, 50);
}

type Ran = { code: number; said: string };

function run(address: string): Promise<Ran> {
  const args = [
    ...["run", `http://${address}/openapi.json`, "--checks", CHECKS.join()],
    ...["--header", `Authorization: Bearer ${TOKENS.operator}`],
    ...["--phases", "examples,coverage,fuzzing,stateful", "--max-examples", String(EXAMPLES)],
    ...["--exclude-operation-id", "streamLive", "--exclude-operation-id", "streamEvents"],
    ...["--request-timeout", "30", "--continue-on-failure"],
    ...["--suppress-health-check", "all", "--warnings", "off"],
    // With two threads, `ast.parse` of CPython 3.11 sometimes fails (python/cpython#106905).
    ...["--workers", "1", "--seed", "1", "--no-color", "--output-truncate", "false"],
  ];
  const cwd = tempDir();
  writeFileSync(join(cwd, "schemathesis.toml"), CONFIG);
  return new Promise((resolve) => {
    execFile(PROGRAM, args, { cwd, maxBuffer: 1 << 28 }, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : Number(error.code ?? 1), said: `${stdout}${stderr}` });
    });
  });
}

test("no request that Schemathesis derives from the document gets a 5xx, no answer, or an answer that contradicts the document", {
  timeout: 40 * 60_000,
  ...needs("python"),
}, async () => {
  install();
  await redis.client.flushdb();
  await lively.begin();
  const { address, log, close } = await fixture.start({ configDir: livelyConfig() });
  const answering = answerTests();
  const { code, said } = await run(address).finally(() => clearInterval(answering));
  expect(code, said).toBe(0);
  expect(said).toMatch(/\d+ generated, \d+ passed/);
  await close();
  const done = log.events.filter(({ event }) => event === "operator.answered");
  // Fewer routes would mean that requests were refused before they reached an operation.
  expect(new Set(done.map(({ fields }) => fields["route"])).size).toBeGreaterThan(30);
});
