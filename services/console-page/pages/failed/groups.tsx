import { type FailedGroup, jobOf } from "../../api/failed.ts";
import { linkTo, useQuery } from "../../route.ts";
import { count, counted } from "../../ui/number.ts";
import { Sparkline } from "../../ui/sparkline.tsx";
import { Ago } from "../../ui/time.tsx";
import { Why } from "../../ui/why.tsx";

/** One line for each job and reason, the most calls first. Choosing one shows its calls. */
export function Groups({ groups }: { groups: readonly FailedGroup[] | undefined }) {
  const [query] = useQuery();
  const isChosen = (group: FailedGroup): boolean =>
    query.get("job") === jobOf(group) &&
    query.get("code") === group.code &&
    query.get("origin") === group.origin;
  const linkOf = (group: FailedGroup): string => {
    const { code, origin } = group;
    const own = isChosen(group) ? { job: "", code: "", origin: "" } : { job: jobOf(group), code, origin };
    return linkTo(["failed"], { ...Object.fromEntries(query), ...own });
  };
  const sorted = [...(groups ?? [])].sort((a, b) => b.count - a.count);
  return (
    <section class="card" aria-label="By job and reason">
      <div class="table-box">
        <table class="stack">
          <thead>
            <tr>
              <th scope="col">Reason</th>
              <th scope="col">Job</th>
              <th scope="col" class="number">
                Calls
              </th>
              <th scope="col" class="wide">
                Last 24 hours
              </th>
              <th scope="col" class="number">
                Newest
              </th>
            </tr>
          </thead>
          <tbody>
            {sorted.map((group) => (
              <tr
                key={`${group.origin} ${jobOf(group)} ${group.code}`}
                class={isChosen(group) ? "chosen" : ""}
              >
                <td class="whole">
                  <a href={linkOf(group)} aria-current={isChosen(group)} class="row-link">
                    <Why code={group.code} reason={group.newest_reason} />
                  </a>
                </td>
                <td data-label="Job">
                  <a href={linkTo(["endpoints"], { view: "jobs", job: jobOf(group) })}>{jobOf(group)}</a>{" "}
                  <span class="muted">{group.origin}</span>
                </td>
                <td class="number strong" data-label="Calls">
                  {count(group.count)}
                </td>
                <td class="wide">
                  <Sparkline
                    values={group.by_hour}
                    tone="bad"
                    label={`${counted(
                      group.by_hour.reduce((sum, each) => sum + each, 0),
                      "call",
                    )} failed in the last 24 hours`}
                  />
                </td>
                <td class="number" data-label="Newest">
                  <Ago at={group.newest_at} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
