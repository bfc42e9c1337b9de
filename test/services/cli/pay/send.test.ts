import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { sendUntilAnswered } from "../../../../services/cli/pay/send.ts";

async function answerAlways(code: string): Promise<URL> {
  const server = createServer((_req, res) => {
    res.writeHead(503, { "Content-Type": "application/problem+json" }).end(JSON.stringify({ code }));
  });
  onTestFinished(() => void server.close());
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
}

const sendTo = (url: URL) =>
  sendUntilAnswered(
    { url, headers: {}, body: undefined },
    Date.now() + 500,
    new AbortController().signal,
    () => {},
  );

test.each(["payment.unavailable", "price.unavailable", "caller.check_unavailable"])(
  "a payment that is refused with %s until the deadline is not charged",
  async (code) => {
    expect((await sendTo(await answerAlways(code))).json["code"]).toBe(code);
  },
);

test.each(["payment.outcome_unknown", "queue.outcome_unknown", "internal.unexpected"])(
  "a payment that is answered with %s until the deadline may be charged",
  async (code) => {
    await expect(answerAlways(code).then(sendTo)).rejects.toMatchObject({ outcome: "unknown" });
  },
);
