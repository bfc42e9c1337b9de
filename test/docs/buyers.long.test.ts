import { execFile } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { useX402 } from "../fixtures/x402.ts";
import { needs, type ProgramName } from "../support/needs.ts";
import { tempDir } from "../support/temp-dir.ts";
import { BUYERS, type Buyer } from "./buyers.ts";

const fixture = useX402();

/** The toolchain of each language, the steps before its users install a library, and the command that runs a program. */
const TOOLS: Readonly<Record<string, { toolchain: ProgramName[]; prepare: string; run: string }>> = {
  ts: { toolchain: [], prepare: "", run: "npx tsx buy.ts" },
  python: { toolchain: ["python"], prepare: "python3 -m venv .venv", run: "python3 buy.py" },
  go: { toolchain: ["go"], prepare: "go mod init buyer", run: "go run ." },
  rust: { toolchain: ["rust"], prepare: "cargo init --quiet --name buyer", run: "cargo run --quiet" },
};

const toolsOf = ({ program }: Buyer) => TOOLS[program.language] as (typeof TOOLS)[string];

/**
 * Runs commands in the buyer's folder, for Python in an environment of its own. A compiler runs with low priority, so that other tests keep
 * the processor.
 */
async function shell(cwd: string, commands: string, key = ""): Promise<string> {
  // npm and Vitest set variables for this project, which a buyer does not have.
  const own = Object.entries(process.env).filter(([name]) => !/^(?:npm_|INIT_CWD$|NODE_)/.test(name));
  const PATH = `${join(cwd, ".venv/bin")}:${process.env["PATH"]}`;
  const env = { ...Object.fromEntries(own), PATH, POSTERN_PAYER_KEY: key };
  const { stdout } = await promisify(execFile)("nice", ["bash", "-ec", commands], { cwd, env });
  return stdout;
}

/** Makes a folder with the printed program, and installs its dependencies with the printed commands. */
async function install(buyer: Buyer, address: string): Promise<string> {
  const cwd = tempDir();
  await shell(cwd, toolsOf(buyer).prepare);
  await shell(cwd, buyer.install.text);
  const { words, text } = buyer.program;
  const file = join(cwd, words[0] ?? "");
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text.replaceAll("127.0.0.1:8402", address));
  return cwd;
}

/** Timeout of an install. Cargo compiles some 300 packages. */
const PATIENCE_MS = 25 * 60_000;

/** The answer of a registry that does not have a version. */
const NOT_TO_BE_HAD = /module version is not available|410 Gone|404 Not Found/;

for (const buyer of BUYERS) {
  const { language } = buyer.program;
  test(`the buyer in ${language} of docs/payments.md, from its install command on, buys a job and is charged once however often it runs`, {
    timeout: PATIENCE_MS,
    ...needs(...toolsOf(buyer).toolchain),
  }, async ({ skip }) => {
    const x402 = await fixture.gateway({ prices: { "1": "10000000000000" } });
    const cwd = await install(buyer, x402.address).catch((error: unknown) => {
      if (language !== "go" || !NOT_TO_BE_HAD.test(String(error))) throw error;
      return skip(
        "The Go module proxy does not have the client of docs/payments.md: npm run test:long where one has it.",
      );
    });
    for (let times = 0; times < 2; times++) {
      const output = await shell(cwd, toolsOf(buyer).run, fixture.payer.privateKey);
      expect(output).toMatch(/^202 (?:null |true )?http:\/\/pay\.test\/x402\/calls\/c_[0-9a-f]{32}\n$/);
    }
    expect(await fixture.charged()).toEqual([32_000n]);
  });
}
