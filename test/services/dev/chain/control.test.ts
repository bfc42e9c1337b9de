import { afterEach, expect, test } from "vitest";
import { useDevnet } from "../../../fixtures/devnet.ts";

const devnet = useDevnet();
afterEach(async () => {
  await devnet.control.clearFaults();
  await devnet.control.resumeMining();
});

const FINALIZED = { id: 7, method: "eth_getBlockByNumber", params: ["finalized", false] };
const DROP = { on: "settle", kind: "drop", times: 1 };

test.each<[order: string, status: number, answer: unknown, body?: unknown]>([
  ["GET /", 200, expect.objectContaining({ chainId: 84_532 })],
  ["GET /faults", 200, { faults: [] }],
  ["POST /faults", 201, expect.objectContaining(DROP), DROP],
  ["DELETE /faults", 204, undefined],
  ["GET /requests", 200, expect.objectContaining({ verify: 0, settle: 0 })],
  ["DELETE /requests", 204, undefined],
  ["GET /mining", 200, { running: true }],
  ["PUT /mining", 200, { running: false }, { running: false }],
  ["PUT /token", 200, expect.objectContaining({ transferFirst: true, feeBps: 0 }), { transferFirst: true }],
  ["PUT /node", 200, expect.objectContaining({ finalized: false, lag: 0 }), { finalized: false }],
  ["GET /node", 200, expect.objectContaining({ finalized: false, lag: 0 })],
  ["POST /rpc", 200, expect.objectContaining({ id: 7, error: expect.anything() }), FINALIZED],
  ["GET /nothing", 404, expect.objectContaining({ status: 404 })],
])("the control port answers %s with %d", async (order, status, answer, body) => {
  const answered = await send(order, body === undefined ? undefined : JSON.stringify(body));
  expect(answered).toEqual({ status, body: answer });
});

test.each([
  ["POST /faults", "an operation without this fault", '{"on":"verify","kind":"pending"}', /settle/],
  ["POST /faults", "an unknown key", '{"on":"settle","kind":"drop","extra":1}', /extra/],
  ["POST /faults", "a body that is not JSON", "drop", /JSON/i],
  ["PUT /token", "an unknown behaviour", '{"odd":true}', /odd/],
  ["PUT /node", "an unknown fault", '{"slow":1}', /slow/],
  ["PUT /mining", "a wrong value of running", '{"running":1}', /running/],
])(
  "the control port refuses %s with %s with 400 and says what is wrong",
  async (order, _what, body, wrong) => {
    const answered = await send(order, body);
    expect(answered.status).toBe(400);
    expect(JSON.stringify(answered.body)).toMatch(wrong);
  },
);

async function send(order: string, body: string | undefined): Promise<{ status: number; body: unknown }> {
  const [method = "", path = ""] = order.split(" ");
  const answer = await fetch(`${devnet.controlUrl}${path}`, { method, ...(body !== undefined && { body }) });
  const text = await answer.text();
  return { status: answer.status, body: text === "" ? undefined : JSON.parse(text) };
}
