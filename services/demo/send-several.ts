import type { Demo } from "./scene.ts";
import type { AcceptedCall } from "./tally.ts";

/** Sends so many signed webhooks at once and says how many were accepted. Rejects unless all were. */
export async function sendSeveral(
  { stage, sender, tally, endpoint }: Demo,
  { count, about }: { count: number; about: string },
): Promise<AcceptedCall[]> {
  const sent = Array.from({ length: count }, (_, i) =>
    sender.send({ endpoint: endpoint("hmac-sha256"), body: JSON.stringify({ about, number: i + 1 }) }),
  );
  const calls = (await Promise.all(sent)).flatMap(({ callId }) => tally.accepted.get(callId) ?? []);
  stage.check(`${count} webhooks are sent: ${count} times 202`, calls.length, count);
  if (calls.length < count) throw new Error(`expected: ${count} calls to go on with`);
  return calls;
}
