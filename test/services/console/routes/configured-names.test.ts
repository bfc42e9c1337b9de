import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { writeConfig } from "../../../../shared/config/config-tables.ts";
import { useOperator } from "../../../fixtures/console.ts";
import { x402Table } from "../../../fixtures/x402.ts";
import { tokenTable } from "../../../support/rate-tokens.ts";
import { tempDir } from "../../../support/temp-dir.ts";

const fixture = useOperator();

describe("200", () => {
  const NAMES = "/api/v1/configured-names";

  test("the paths of endpoints and the networks of tokens are listed, even if secrets are missing", async () => {
    const configDir = join(tempDir(), "config");
    const endpoints = [{ path: "/hooks/a", job_id: 1, auth: "bearer", secret: "env:ABSENT" }];
    const address = `0x${"1".repeat(40)}` as const;
    const url = "http://127.0.0.1:1";
    const x402 = x402Table({
      devnet: { facilitatorUrl: url, rpcUrl: url, network: "eip155:31337", token: address, seller: address },
      token: { rpc_url: "env:ABSENT" },
    });
    writeConfig(configDir, { postern: {}, webhooks: { endpoints }, x402 });
    const { get } = await fixture.start({ configDir });
    const answer = await get(NAMES, { as: "viewer" });
    const networks = ["eip155:31337"];
    expect(answer.json()).toEqual({ endpoints: ["/hooks/a"], jobs: {}, networks, public_networks: [] });
  });

  test("a job has its name from postern.toml or job_pricing.toml, which has priority, and a changed file is used at once", async () => {
    const configDir = join(tempDir(), "config");
    const write = (name: string) =>
      writeConfig(configDir, {
        postern: { jobs: { "7/1": { name }, "1/7": { name: "other" }, "7/2": { attempts: 3 } } },
        job_pricing: { "1": { "7": { price_wei: "1", name: "report" }, "8": "1" } },
      });
    write("orders");
    const { get } = await fixture.start({ configDir });
    const names = async () => (await get(NAMES)).json()["jobs"];
    expect(await names()).toEqual({ "7/1": "orders", "1/7": "report" });
    const { jobs } = (await get("/api/v1/jobs")).json<{ jobs: { job: string }[] }>();
    expect(jobs.map(({ job }) => job)).toEqual(["1/7", "7/1"]);
    write("invoices");
    expect(await names()).toEqual({ "7/1": "invoices", "1/7": "report" });
  });

  const TOKEN = tokenTable("3200");
  const EURC = { ...TOKEN, asset: "0x60a3E35Cc302bFA44Cb288Bc5a4F316Fdb1adb42", symbol: "EURC" };
  const PUBLIC = "https://mainnet.base.org/v1/some-key";

  test.each([
    ["has a public node", [{ ...TOKEN, rpc_url: PUBLIC }], true],
    ["has its node on this machine, as the devnet", [{ ...TOKEN, rpc_url: "http://127.0.0.1:8545" }], false],
    ["has its node on this machine by name", [{ ...TOKEN, rpc_url: "http://localhost:8545" }], false],
    ["has its node in a private network", [{ ...TOKEN, rpc_url: "https://10.0.0.7" }], false],
    ["has its node at a name without a dot", [{ ...TOKEN, rpc_url: "https://anvil" }], false],
    [
      "has its node at a name that no public DNS has",
      [{ ...TOKEN, rpc_url: "https://anvil.internal" }],
      false,
    ],
    ["names no node", [TOKEN], false],
    ["has a node whose URL is not there", [{ ...TOKEN, rpc_url: "env:ABSENT" }], false],
    ["has a public node for each token", [TOKEN, EURC].map((each) => ({ ...each, rpc_url: PUBLIC })), true],
    ["names no node for one of its tokens", [{ ...TOKEN, rpc_url: PUBLIC }, EURC], false],
  ])("a network that %s is reported as public or not", async (_what, tokens, isPublic) => {
    const configDir = join(tempDir(), "config");
    writeConfig(configDir, { postern: {}, x402: { accepted_tokens: tokens } });
    const { get } = await fixture.start({ configDir });
    const { networks, public_networks } = (await get(NAMES)).json<Record<string, string[]>>();
    expect(networks).toEqual([TOKEN.network]);
    expect(public_networks).toEqual(isPublic ? networks : []);
  });

  test("without the files no name is known", async () => {
    const { get } = await fixture.start();
    expect((await get(NAMES)).json()).toEqual({ endpoints: [], jobs: {}, networks: [], public_networks: [] });
  });
});
