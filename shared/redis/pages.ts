/** What a command WITHSCORES answers, a flat list of members and scores by turns, as pairs. */
export function toScored(reply: readonly string[]): { member: string; score: number }[] {
  const pairs: { member: string; score: number }[] = [];
  for (let i = 0; i + 1 < reply.length; i += 2) {
    pairs.push({ member: String(reply[i]), score: Number(reply[i + 1]) });
  }
  return pairs;
}
