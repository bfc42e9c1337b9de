import { expect, test } from "vitest";
import { openRaw, sendRaw } from "../../../support/http.ts";
import { echo, useServers } from "./servers.ts";

const servers = useServers();

const withCodings = (codings: string, rest = "") =>
  `POST / HTTP/1.1\r\nHost: x\r\n${codings}\r\n${rest}\r\n3\r\nabc\r\n0\r\n\r\n`;

test.each([
  ["another coding before chunks", "Transfer-Encoding: gzip, chunked"],
  ["another coding in a header of its own", "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked"],
  ["a coding that nobody knows", "Transfer-Encoding: x-new, Chunked"],
])(
  "a request with %s is refused with 501 as a problem document, and its connection ends",
  async (_what, codings) => {
    const server = await servers.serve(echo);
    const raw = await sendRaw(server.address, withCodings(codings));
    expect(raw).toMatch(/^HTTP\/1\.1 501/);
    expect(raw).toMatch(/Connection: close/i);
    expect(raw).toContain("application/problem+json");
    expect(raw).toContain('"code":"request.transfer_coding_unsupported"');
  },
);

test("a body in an unknown transfer coding is not asked for, and no handler sees its request", async () => {
  const handled: string[] = [];
  const server = await servers.serve((req, res) => {
    handled.push(`${req.method} ${req.url}`);
    echo(req, res);
  });
  const asks = withCodings("Transfer-Encoding: gzip, chunked", "Expect: 100-continue\r\n");
  expect(await sendRaw(server.address, asks)).toMatch(/^HTTP\/1\.1 501/);
  expect(handled).toEqual([]);
});

test("what follows a body in an unknown transfer coding is no request", async () => {
  const server = await servers.serve(echo);
  const hidden = "POST /hidden HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n";
  const raw = await sendRaw(server.address, withCodings("Transfer-Encoding: gzip, chunked") + hidden);
  expect(raw.match(/HTTP\/1\.1 /g)).toHaveLength(1);
});

test("chunks in any letters are read", async () => {
  const server = await servers.serve(echo);
  const { socket, received } = openRaw(server.address, withCodings("Transfer-Encoding: CHUNKED"));
  await expect.poll(received).toMatch(/^HTTP\/1\.1 200[\s\S]*abc/);
  socket.destroy();
});
