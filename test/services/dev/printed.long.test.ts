import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { stripVTControlCharacters } from "node:util";
import { beforeAll, describe, expect, test } from "vitest";
import { createDevPayments, newDevSecrets } from "../../../shared/dev/config.ts";
import { freePort } from "../../../shared/dev/free-port.ts";
import { builtEntry, type PosternProcess } from "../../../shared/dev/process.ts";
import { useEnds } from "../../fixtures/ends.ts";
import { jsonLines, usePostern } from "../../fixtures/postern.ts";
import { needs } from "../../support/needs.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { apart, freeBase, type Ready, readyOf, startDev } from "./use-dev.ts";

const PATIENCE_MS = 300_000;

const postern = usePostern();
const ends = useEnds();

/** Returns what dev prints on a terminal until it is ready. */
async function screenOf(...options: string[]): Promise<string> {
  const command = [
    process.execPath,
    ...builtEntry("services/cli/main.js"),
    "dev",
    ...options,
    ...(await apart()),
  ];
  const script = ["-qefc", command.join(" "), "/dev/null"];
  const terminal = spawn("script", script, {
    cwd: tempDir(),
    // An empty variable counts as unset.
    env: { ...process.env, POSTERN_LOG_LEVEL: "" },
    stdio: ["pipe", "pipe", "inherit"],
  });
  const closed = new Promise((resolve) => terminal.on("close", resolve));
  ends.defer(() => terminal.kill("SIGKILL"));
  let said = "";
  await new Promise<void>((resolve, reject) => {
    terminal.stdout.on("data", (chunk: Buffer) => {
      said += chunk.toString();
      if (said.includes("Press Ctrl-C to stop everything.")) resolve();
    });
    terminal.on("close", () => reject(new Error(said)));
  });
  terminal.stdin.write("\u0003");
  await closed;
  return stripVTControlCharacters(said);
}

test("dev prints one banner on a terminal without warnings about its own choices, and --verbose prints the logs of its parts", {
  timeout: PATIENCE_MS,
  ...needs("script"),
}, async () => {
  const [quiet, verbose] = [await screenOf(), await screenOf("--verbose")];
  const lines = quiet.split("\n").map((line) => line.trimEnd());
  expect(lines.find((line) => line !== "")).toMatch(/^ {2}webhooks gateway /);
  expect(quiet).not.toMatch(/INFO|WARN|service\.started/);
  expect(verbose).toMatch(/^webhooks .*INFO: service\.started/m);
  expect(verbose).not.toMatch(/WARN|ERROR/);
});

describe("the lines that dev prints for an operator's own configuration", () => {
  const own = "a token of the operator's own, 0123456789";
  // npm sets this variable for the tests, and with some of its values, dev prints `npx postern`.
  const env = { ...process.env, npm_lifecycle_event: undefined, POSTERN_OWN_TOKEN: own };
  const example = { it: "it's one" };
  let dev: PosternProcess;
  let ready: Ready;
  beforeAll(async () => {
    const [rpc, x402, webhooks, runner] = [
      await freeBase(3),
      ...(await Promise.all([1, 2, 3].map(() => freePort()))),
    ];
    const devnet = {
      network: "eip155:84532",
      token: "0x036CbD53842c5426634e7929541eC2318f3dCF7e",
      seller: "0x90F79bf6EB2c4f870365E785982E1f101E93b906",
      rpcUrl: `http://127.0.0.1:${rpc}`,
      facilitatorUrl: `http://127.0.0.1:${rpc + 1}`,
    } as const;
    const address = `127.0.0.1:${x402}`;
    const tables = createDevPayments(devnet, { address, serviceId: "1", secrets: newDevSecrets() });
    const endpoint = (path: string, more: object) => ({ path, job_id: 1, ...more });
    postern.configure({
      postern: {
        runner: {
          bind_address: `127.0.0.1:${runner}`,
          url: `http://127.0.0.1:${runner}`,
          secret: "file:secrets/runner",
        },
      },
      webhooks: {
        bind_address: `127.0.0.1:${webhooks}`,
        endpoints: [
          endpoint("/open", { auth: "none" }),
          endpoint("/variable", { auth: "bearer", secret: ["env:POSTERN_OWN_TOKEN", `another ${own}`] }),
          endpoint("/key", { auth: "api-key", secret: "env:POSTERN_OWN_TOKEN" }),
          endpoint("/literal", { auth: "bearer", secret: own }),
          endpoint("/basic", { auth: "basic", username: "me", secret: "env:POSTERN_OWN_TOKEN" }),
          endpoint("/query", { auth: "token", token_query: "t", secret: own }),
          endpoint("/signed", { auth: "hmac-sha256", secret: own }),
        ],
      },
      x402: tables.x402,
      job_pricing: {
        "1": {
          "1": {
            price_wei: "1000000000000000",
            input_schema: { type: "object", required: ["it"] },
            input_example: example,
          },
        },
      },
    });
    mkdirSync(join(postern.configDir, "secrets"), { recursive: true });
    writeFileSync(join(postern.configDir, "secrets/runner"), `${own}\n`);
    dev = startDev(postern, ["--config-dir", postern.configDir, ...(await apart())], { env });
    ready = await readyOf(dev);
  }, PATIENCE_MS);

  /** Runs a printed line in a shell in which `postern` is this program. */
  const paste = (line: string): string => {
    const program = [process.execPath, ...builtEntry("services/cli/main.js")].join(" ");
    return execFileSync("sh", ["-c", `postern() { ${program} "$@"; }; ${line}`], { env, encoding: "utf8" });
  };

  test("each works when it is pasted, and none shows a secret", () => {
    const lines = ready.endpoints.map(({ path, curl, send }) => [path, curl ?? send ?? ""] as const);
    expect(lines.map(([path, line]) => [path, /^\S+/.exec(line)?.[0]])).toEqual([
      ["/open", "curl"],
      ["/variable", "curl"],
      ["/key", "curl"],
      ["/literal", "postern"],
      ["/basic", "postern"],
      ["/query", "postern"],
      ["/signed", "curl"],
    ]);
    for (const [path, line] of lines)
      expect([path, paste(line)]).toEqual([path, expect.stringMatching(/\b202\b/)]);
    for (const [, line] of lines.slice(1, 3)) expect(line).toContain('"$POSTERN_OWN_TOKEN"');
    expect(JSON.stringify(dev.events())).not.toContain(own);
  });

  test("a job can be bought with the example of its schema, at any price", async () => {
    const [job] = ready.jobs;
    expect(jsonLines({ stdout: paste(`${job?.pay} -o json`) }).at(-1)).toMatchObject({ outcome: "injected" });
  });

  test("only the line of a purchase contains a payer's key", async () => {
    const { payers } = (await (await fetch(ready.devnet?.control ?? "")).json()) as {
      payers: { privateKey: string }[];
    };
    const lines = dev.events().map((event) => JSON.stringify(event.event === "dev.ready" ? {} : event));
    expect(payers).toHaveLength(7);
    for (const { privateKey } of payers)
      expect(lines.filter((line) => line.includes(privateKey))).toEqual([]);
  });
});
