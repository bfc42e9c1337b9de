import { expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../fixtures/console.ts";

const fixture = useOperator();

test("a request with an unknown host name is refused with 421, with any credential", async () => {
  const service = await fixture.start();
  for (const Host of [
    "rebound.example.com",
    "localhost.example.com",
    "rebound.localhost",
    "notlocalhost",
    "127.0.0.1.example.com",
    "",
    "[::1",
    "x:1:2",
  ]) {
    for (const path of ["/api/v1/jobs", "/session", "/", "/nowhere"]) {
      const answer = await service.get(path, { headers: { Host } });
      expect([Host, path, ...refusalOf(answer)]).toEqual([Host, path, 421, "operator.host_unknown"]);
    }
  }
});

test("IP addresses, localhost, and the names in public_url and allowed_hosts are known, with any port", async () => {
  const operator = { public_url: "https://ops.example.com", allowed_hosts: ["Postern.internal"] };
  const service = await fixture.start({ operator });
  const known = ["127.0.0.1:1", "10.1.2.3", "[::1]:9300", "localhost", "LOCALHOST:80", "ops.example.com"];
  for (const Host of [...known, "ops.example.com:443", "postern.INTERNAL.:9300"])
    expect([Host, (await service.get("/session", { headers: { Host } })).status]).toEqual([Host, 200]);
});
