import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { writeConfig } from "../../../../shared/config/config-tables.ts";
import { useOperator } from "../../../fixtures/operator.ts";
import { x402Table } from "../../../fixtures/x402.ts";
import { tempDir } from "../../../support/temp-dir.ts";

const fixture = useOperator();

describe("200", () => {
  const NAMES = "/api/v1/configured-names";

  test("the paths of endpoints and the networks of tokens are listed, also if secrets are not there", async () => {
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
    expect(answer.json()).toEqual({ endpoints: ["/hooks/a"], networks: ["eip155:31337"] });
  });

  test("without the files no name is known", async () => {
    const { get } = await fixture.start();
    expect((await get(NAMES)).json()).toEqual({ endpoints: [], networks: [] });
  });
});
