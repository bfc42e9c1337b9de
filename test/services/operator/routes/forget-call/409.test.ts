import { expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../../fixtures/operator.ts";
import { usePayments } from "../../../../fixtures/payments.ts";

const payments = usePayments();
const fixture = useOperator({ redis: payments.redis });

test("a call that waits, or whose payment is undecided, is not forgotten: 409, which says how it stands", async () => {
  const [waiting, settling, inReview] = [
    await payments.buy(),
    await payments.claim(),
    await payments.claimForReview(),
  ];
  const { post } = await fixture.start();
  const forget = async (id: string) => {
    const answer = await post(`/api/v1/calls/${id}/forget`, { reason: "x" });
    return [...refusalOf(answer), answer.json()["detail"]];
  };
  expect(await forget(waiting)).toEqual([409, "call.in_hand", expect.stringContaining("it is waiting")]);
  expect(await forget(settling)).toEqual([409, "call.undecided", expect.stringContaining("not known yet")]);
  expect(await forget(inReview)).toEqual([409, "call.undecided", expect.stringContaining("in review")]);
});
