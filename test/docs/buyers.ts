import { execFile } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { messageOf } from "../../shared/errors/app-error.ts";
import { tempDir } from "../support/temp-dir.ts";
import { type Block, blocksOf } from "./blocks.ts";

type Language = keyof typeof TOOLS;

/** What a language's buyer needs beside its own file, how to see whether all of it is there, and how it is run. */
const TOOLS = {
  python: {
    files: {},
    probe: ["python3", "-c", "import eth_account, x402.extensions.payment_identifier, x402.http.clients"],
    run: ["python3", "buy.py"],
  },
  go: {
    files: { "go.mod": "module buyer\n\ngo 1.24\n" },
    probe: ["go", "mod", "tidy"],
    run: ["go", "run", "."],
  },
  rust: {
    files: {
      "Cargo.toml": `[package]
name = "buyer"
version = "0.1.0"
edition = "2024"

[dependencies]
x402-reqwest = "*"
x402-chain-eip155 = { version = "*", features = ["client"] }
alloy-signer-local = "*"
reqwest = "*"
tokio = { version = "1", features = ["full"] }
`,
    },
    probe: ["cargo", "build", "--offline", "--quiet"],
    run: ["cargo", "run", "--offline", "--quiet"],
  },
} as const;

/** No registry is asked: what is not on this machine is not there. */
const OFFLINE = { GOPROXY: "off", GOFLAGS: "-mod=mod", GOTOOLCHAIN: "local" };

export function isBuyer({ language }: Pick<Block, "language">): boolean {
  return Object.hasOwn(TOOLS, language);
}

export const BUYERS: readonly Block[] = blocksOf("docs/payments.md").filter(isBuyer);

export type Tried = { kind: "no tools"; missing: string } | { kind: "ran"; stdout: string };

/** Runs a document's buyer as it stands, but for the gateway's address, with the tools that are on this machine. */
export async function tryBuyer(
  { language, words, text }: Block,
  address: string,
  key: string,
): Promise<Tried> {
  const { files, probe, run } = TOOLS[language as Language];
  const cwd = tempDir();
  const all: Record<string, string> = {
    ...files,
    [words[0] ?? ""]: text.replaceAll("127.0.0.1:8402", address),
  };
  for (const [name, content] of Object.entries(all)) {
    mkdirSync(dirname(join(cwd, name)), { recursive: true });
    writeFileSync(join(cwd, name), content);
  }
  const env = { ...process.env, ...OFFLINE, POSTERN_PAYER_KEY: key };
  const start = ([program = "", ...args]: readonly string[]) =>
    promisify(execFile)(program, args, { cwd, env });
  try {
    await start(probe);
  } catch (error) {
    const said = messageOf(error).trim().split("\n").at(-1);
    return { kind: "no tools", missing: `${probe[0]} or its x402 client is not on this machine: ${said}` };
  }
  return { kind: "ran", stdout: (await start(run)).stdout };
}
