import { expect, test } from "vitest";
import { sendRaw } from "../../../support/http.ts";
import { echo, useServers } from "./servers.ts";

const servers = useServers();

test("a request with an expectation that cannot be met is refused with 417, as a problem document", async () => {
  const server = await servers.serve(echo);
  const headers = "Host: x\r\nExpect: foo\r\nContent-Length: 3\r\n\r\nabc";
  const raw = await sendRaw(server.address, `POST / HTTP/1.1\r\n${headers}`);
  expect(raw).toMatch(/^HTTP\/1\.1 417/);
  expect(raw).toContain('"code":"request.expectation_failed"');
  expect(raw).toContain("application/problem+json");
});
