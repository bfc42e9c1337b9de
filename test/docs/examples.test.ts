import { spawnSync } from "node:child_process";
import { generateKeyPairSync } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parse, type TomlTable } from "smol-toml";
import { expect, test } from "vitest";
import { parseAllDocuments } from "yaml";
import { loadConfig } from "../../shared/config/config-dir.ts";
import { writeConfig } from "../../shared/config/config-tables.ts";
import { readWebhooks } from "../../shared/config/read-webhooks.ts";
import { sha256Hex } from "../../shared/platform/crypto/compare.ts";
import { contentDigest, signMessage } from "../../shared/platform/crypto/message-signature.ts";
import { Secret } from "../../shared/platform/crypto/secret.ts";
import { readPricing } from "../../shared/pricing/read-pricing.ts";
import { readX402 } from "../../shared/pricing/read-x402.ts";
import { dirWith, filledExample } from "../shared/config/files.ts";
import { COMPILER, makeConsumer } from "../support/consumer.ts";
import { onlyInLongRun } from "../support/long-run.ts";
import { needs } from "../support/needs.ts";
import { tempDir } from "../support/temp-dir.ts";
import { type Block, blocksOf, DOCUMENTS } from "./blocks.ts";
import { BUYERS, isBuyer } from "./buyers.ts";
import { SENDER_SECRETS } from "./senders.ts";
import { follow, ISOLATION } from "./session.ts";

const all = DOCUMENTS.flatMap(blocksOf);

/** Pages whose commands are run by another check. */
const PAGES_RUN_ELSEWHERE: Readonly<Record<string, string>> = {
  "docs/operations/README.md": "test/docker/compose.test.ts",
  "docs/operations/kubernetes/README.md": "test/docs/kubernetes.long.test.ts",
  "docs/operations/prometheus/README.md": "test/docs/prometheus.test.ts",
  "docs/operations/proxies/README.md": "test/docs/proxies.test.ts",
  "docs/operations/systemd/README.md": "test/docs/units.test.ts",
};

/** Commands that are run by another check. */
const RUN_ELSEWHERE: Readonly<Record<string, string>> = {
  "npm run demo": "test/services/dev/demo/demo.test.ts",
  "npm test": "the run of this test",
  "npm pack": "test/package/install.long.test.ts",
  "npm install ../postern/postern-0.1.0.tgz": "test/package/install.long.test.ts",
  "npx postern dev": "test/package/install.long.test.ts",
  'docker run --detach --init --read-only --user "$(id -u):$(id -g)" --publish 9090:9090 --env POSTERN_SERVICE_ID=1 --volume "$PWD/config:/etc/postern:ro" postern webhooks --config-dir /etc/postern --bind-address 0.0.0.0:9090':
    "test/docker/image.long.test.ts",
  "npm run postern -- dev --runner http://127.0.0.1:7000": "test/docs/python-runner.long.test.ts",
  "postern callbacks show-secret https://hooks.example.com/postern":
    "test/services/cli/callbacks/show-secret.test.ts",
  "postern reload": "test/services/cli/reload.test.ts",
  'postern reload --reason "new endpoint for Stripe"': "test/services/cli/reload.test.ts",
  "postern redis remove-node 10.0.0.3:6379": "test/services/cli/redis/remove-node.long.test.ts",
  'postern redis adopt --since 2026-11-07T03:00:00Z --reason "disk lost, backup of 03:00 restored"':
    "test/system/wrong-redis.test.ts",
  "redis-cli --scan --pattern '{postern-runner}:*' | xargs -r -d '\\n' -n 100 redis-cli MIGRATE redis-2 6379 '' 0 60000 COPY REPLACE KEYS":
    "test/system/upgrade.long.test.ts",
  "redis-cli --scan --pattern '{postern}:*' | xargs -r -d '\\n' -n 1000 redis-cli UNLINK":
    "test/system/upgrade.long.test.ts",
  'postern endpoints disable /hooks/github --reason "its job is broken"':
    "test/services/cli/endpoints/states.test.ts",
  'postern endpoints hold /hooks/github --reason "the new handler is not ready"':
    "test/services/cli/endpoints/states.test.ts",
  "postern endpoints enable /hooks/github": "test/services/cli/endpoints/states.test.ts",
  "postern jobs run-delayed 7/1": "test/services/cli/jobs/run-delayed.test.ts",
  "postern calls run-now c_5b0e6c9a4f1d4a7e9c3b2a1d0f8e7c6b": "test/services/cli/jobs/run-delayed.test.ts",
  "npm run postern -- dev --config-dir config/devnet": "test/services/dev/ports.test.ts",
};

type Use = "run" | "run elsewhere" | "compiled" | "written" | "loaded" | "loaded whole" | "parsed" | "shown";

/**
 * How a test uses a block, by the words of its info string. Undefined if these words have no meaning:
 *   sh             commands, run to their end
 *   sh service     services, one a line, run until the document ends
 *   sh elsewhere   commands that another check runs
 *   ts FILE        a module, compiled; later blocks may run the file
 *   python FILE    a buyer in that language, like go FILE and rust FILE, run by test/docs/buyers.long.test.ts.
 *                  In docs/runner.md it is a runner, run by python-runner.long.test.ts
 *   toml FILE      a file of the reader's, written; later blocks load it
 *   toml NAME part keys of a configuration file, loaded over the example's
 *   toml NAME whole a configuration file, or a part of it: the parts in a document are joined to one file
 *   yaml FILE      a file of another program, parsed
 *   output         the output of the commands in the block before it
 *   drawing        a drawing, which no test reads
 */
function useOf({ language, words }: Block): Use | undefined {
  if (isBuyer({ language })) return words.length === 1 ? "run elsewhere" : undefined;
  if (language === "yaml") return "parsed";
  switch ([language, ...words.slice(language === "ts" || language === "toml" ? 1 : 0)].join(" ")) {
    case "sh":
    case "sh service":
      return "run";
    case "sh elsewhere":
      return "run elsewhere";
    case "ts":
      return words.length === 1 ? "compiled" : undefined;
    case "toml":
      return words.length === 1 ? "written" : undefined;
    case "toml part":
      return "loaded";
    case "toml whole":
      return "loaded whole";
    case "output":
    case "drawing":
      return "shown";
    default:
      return undefined;
  }
}

const used = (...uses: Use[]) => all.filter((block) => uses.includes(useOf(block) as Use));

test("every fenced block of README and docs is run, compiled, loaded or marked as output", () => {
  expect(all.filter((block) => useOf(block) === undefined).map(({ at }) => at)).toEqual([]);
});

test("a block of output follows the block of commands that prints it", () => {
  const strays = all.filter((block, i) => block.language === "output" && all[i - 1]?.language !== "sh");
  expect(strays.map(({ at }) => at)).toEqual([]);
});

test.each(used("parsed"))("the YAML shown at $at is YAML", ({ text }) => {
  expect(parseAllDocuments(text).flatMap(({ errors, warnings }) => [...errors, ...warnings])).toEqual([]);
});

test("every command that no document's session runs is run by another check", () => {
  const installs = BUYERS.map(({ install }) => install.at);
  const blocks = used("run elsewhere").filter(
    (block) =>
      !isBuyer(block) &&
      !installs.includes(block.at) &&
      !Object.hasOwn(PAGES_RUN_ELSEWHERE, block.at.split(":")[0] ?? ""),
  );
  const commands = blocks.flatMap(({ text }) => text.trim().split("\n"));
  const bare = commands.map((command) => command.replace(/\s*#.*/, ""));
  expect(bare.filter((command) => !Object.hasOwn(RUN_ELSEWHERE, command))).toEqual([]);
});

/** Packages that docs/payments.md tells a buyer to install, because an install of Postern does not include them. */
const CLIENT = ["@x402/evm", "@x402/extensions", "@x402/fetch", "viem"];

onlyInLongRun(() => {
  test("every TypeScript example compiles as a module of a user's own, strictly and with the types of its libraries checked", () => {
    const project = makeConsumer({ with: ["fastify", "@types/express", "standardwebhooks", ...CLIENT] });
    const examples = used("compiled");
    for (const [i, { text }] of examples.entries()) {
      mkdirSync(join(project, `${i}`));
      writeFileSync(join(project, `${i}/example.ts`), text);
    }
    const { stdout } = spawnSync(
      process.execPath,
      [COMPILER, "-p", project, "--noEmit", "--pretty", "false"],
      {
        cwd: project,
        encoding: "utf8",
      },
    );
    const located = stdout.replace(/^(\d+)\/example\.ts/gm, (_, i: string) => examples[Number(i)]?.at ?? i);
    expect(located).toBe("");
  });
});

test("the signature check of docs/runner.md accepts a producer's signed request, and no changed one", async () => {
  const example = used("compiled").find(({ words }) => words[0] === "check-signature.ts");
  const file = join(tempDir(), "check-signature.ts");
  writeFileSync(file, example?.text ?? "");
  const { isSigned } = (await import(file)) as {
    isSigned(req: object, body: Buffer, secret: string): boolean;
  };

  const body = Buffer.from("hello");
  const covered = {
    "content-digest": contentDigest(sha256Hex(body)),
    "content-type": "text/plain",
    "idempotency-key": "c_1",
    "x-platform-call-id": "c_1",
  };
  const url = "/jobs/1";
  const now = Math.floor(Date.now() / 1000);
  const signed = (created: number) => {
    const signature = signMessage(new Secret("s"), { method: "POST", path: url, headers: covered }, created);
    return { ...covered, "signature-input": signature["Signature-Input"], signature: signature.Signature };
  };
  const request = { method: "POST", url, headers: signed(now) };
  const { headers } = request;
  expect(isSigned(request, body, "s")).toBe(true);
  expect(isSigned(request, body, "t")).toBe(false);
  expect(isSigned(request, Buffer.from("hullo"), "s")).toBe(false);
  expect(isSigned({ ...request, url: "/jobs/2" }, body, "s")).toBe(false);
  expect(isSigned({ ...request, method: "PUT" }, body, "s")).toBe(false);
  expect(isSigned({ ...request, headers: { ...headers, "x-webhook-name": "other" } }, body, "s")).toBe(false);
  expect(isSigned({ ...request, headers: { ...headers, "content-type": "text/html" } }, body, "s")).toBe(
    false,
  );
  expect(isSigned({ ...request, headers: { ...headers, signature: "postern=:AAAA:" } }, body, "s")).toBe(
    false,
  );
  expect(isSigned({ ...request, headers: signed(now - 310) }, body, "s")).toBe(false);
  expect(isSigned({ ...request, headers: signed(now + 70) }, body, "s")).toBe(false);
  expect(isSigned({ ...request, headers: covered }, body, "s")).toBe(false);
});

test.each(used("loaded"))(
  "the keys shown at $at are valid in the configuration file that they name",
  ({ words, text }) => {
    const name = String(words[0]).replace(".toml", "");
    const table = merged(exampleTable(name), parse(text)) as TomlTable;
    const dir = tempDir();
    const callbacks = { secret: "env:POSTERN_CALLBACK_SECRET" };
    const others = {
      ...((name === "x402" || name === "pricing") && { job_pricing: exampleTable("job_pricing") }),
      ...(name !== "postern" && { postern: { callbacks } }),
    };
    writeConfig(dir, { ...others, [name]: table });
    loadConfig(readX402, { dir, env: ANY_ENV });
    loadConfig(readPricing, { dir, env: ANY_ENV });
  },
);

test.each(DOCUMENTS.filter((file) => blocksOf(file).some((block) => useOf(block) === "loaded whole")))(
  "the configuration shown in %s is valid as one file",
  (file) => {
    const blocks = blocksOf(file).filter((block) => useOf(block) === "loaded whole");
    const [name = ""] = new Set(blocks.map(({ words }) => words[0]));
    const text = blocks.map((block) => block.text).join("\n");
    loadConfig(readWebhooks, { dir: dirWith({ [name]: text }), env: { ...SENDER_SECRETS } });
  },
);

const followed = DOCUMENTS.filter((file) => blocksOf(file).some((block) => useOf(block) === "run"));

/** Timeout of a document's session. A document may start five services while other tests use the processor. */
const PATIENCE_MS = 320_000;

const inTurnOrAtOnce = ISOLATION.length > 0 ? test.concurrent.each(followed) : test.each(followed);

onlyInLongRun(() => {
  inTurnOrAtOnce(
    "a reader who follows %s from a clone sees the output that it shows",
    { timeout: PATIENCE_MS, ...needs("curl", "openssl") },
    async (file) => {
      const blocks = blocksOf(file).filter((block) =>
        ["run", "written", "compiled", "shown"].includes(useOf(block) as Use),
      );
      for (const { at, printed, shown } of await follow(blocks))
        expect(`${printed.trim()}\n`, at).toMatch(patternOf(shown));
    },
  );
});

/** Turns the shown output into a pattern. `…` matches any text in a line, and a line of only `…` matches any lines. */
function patternOf(shown: string): RegExp {
  const lines = shown.trimEnd().split("\n");
  const patterns = lines.map((line) =>
    line.trim() === "…" ? "(?:.*\\n)*?" : `${line.split("…").map(escaped).join(".*")}\\n`,
  );
  return new RegExp(`^${patterns.join("")}$`);
}

function escaped(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}

const exampleTable = (name: string): TomlTable => parse(filledExample(`${name}.toml`));

/** Merges tables key by key. In an array of tables, each table is merged over the table at the same index. */
function merged(base: unknown, over: unknown): unknown {
  if (Array.isArray(base) && Array.isArray(over) && isTable(over[0]))
    return over.map((each, i) => merged(base[i] ?? base[0], each));
  if (!isTable(base) || !isTable(over)) return over;
  // The source of a rate, and a token with another method, have different keys, so they replace the example's.
  if ("source" in over || "transfer_method" in over) return over;
  const entries = Object.entries(over).map(([key, value]) => [key, merged(base[key], value)]);
  return { ...base, ...Object.fromEntries(entries) };
}

function isTable(value: unknown): value is TomlTable {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

const CDP_SECRET = generateKeyPairSync("ec", { namedCurve: "P-256" })
  .privateKey.export({ format: "pem", type: "pkcs8" })
  .toString();

/** An environment in which every variable has a value. */
const ANY_ENV: NodeJS.ProcessEnv = new Proxy(
  {},
  {
    get(_, name) {
      if (String(name).endsWith("_URL")) return "https://node.example.com";
      if (name === "POSTERN_CALLBACK_SECRET") return `whsec_${Buffer.alloc(32, "x").toString("base64")}`;
      if (name === "CDP_API_KEY_SECRET") return CDP_SECRET;
      return String(name).endsWith("_KEY")
        ? `0x${"1".repeat(64)}`
        : "a secret of the reader's own, long enough";
    },
  },
);
