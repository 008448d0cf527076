// Checks whether a policy allows the program to read the model: `modelfmt --policy` uses the same rules.
import { fill, h } from "./elements.js";
import { chosen } from "./files.js";
import { watched } from "./progress.js";

// The longest policy, and the most that is read of a key, in bytes.
const LONGEST = 1 << 20;

export function policy(model) {
  const find = (pattern) => model.files.filter(({ name, blob }) => blob && pattern.test(name)).map(({ name, blob }) => ({ name: name.split("/").pop(), blob }));
  let [rules, keys] = [find(/\.toml$/i)[0], find(/\.pub$/i)];
  const files = h("input", { type: "file", id: "policy", multiple: true, accept: ".toml,.pub,.pem" });
  const at = h("input", { type: "text", id: "policy-at", placeholder: "/srv/models/…", value: model.files.find(({ name }) => name === model.name)?.url ?? "" });
  const named = h("p", { class: "name" }, rules?.name);
  const run = h("button", { type: "button", class: "primary", id: "judge" }, "Judge");
  const [status, result] = [h("div", { role: "status" }), h("div", { id: "judged" })];
  files.onchange = () => {
    for (const { name, blob } of chosen(files)) {
      if (/\.toml$/i.test(name)) rules = { name, blob };
      else keys = [...keys.filter((key) => key.name !== name), { name, blob }];
    }
    fill(named, [rules?.name, ...keys.map(({ name }) => name)].filter(Boolean).join(", "));
  };
  run.onclick = async () => {
    run.disabled = true;
    fill(result);
    try {
      if (!rules) throw new Error("Give a policy, NAME.toml, and the keys that it names.");
      if (rules.blob.size > LONGEST) throw new Error("A policy has at most 1 MiB.");
      const text = async ({ name, blob }) => [name, await blob.slice(0, LONGEST).text()];
      const args = {
        policy: await rules.blob.text(),
        policy_name: rules.name,
        policy_keys: Object.fromEntries(await Promise.all(keys.map(text))),
        at: at.value.trim() || null,
        signature: (await signature(model)) ?? null,
      };
      const answer = await watched(status, "Judging", 0, (told) => model.job("policy", args, told));
      fill(result, answer ? verdict(answer.value) : h("p", { class: "quiet" }, "Stopped."));
    } catch (error) {
      fill(result, h("p", { class: "problem" }, error.message));
    } finally {
      run.disabled = false;
    }
  };
  return h("details", { class: "card", id: "policy-card", open: Boolean(rules) },
    h("summary", {}, "A policy"),
    h("div", { class: "form" },
      h("label", { for: "policy" }, "Policy and keys"), h("div", {}, named, files),
      h("label", { for: "policy-at" }, "Read from"), at,
      h("span"), h("div", {}, run),
      h("span"), h("span", { class: "quiet" }, "Rules go by the absolute path or the URL from which the program reads the file. Without one, the default of the policy counts."),
    ),
    status,
    result,
  );
}

// Returns the text of the signature next to the file.
async function signature({ files, name }) {
  const found = files.find((file) => file.blob && file.name === `${name}.sig`)?.blob;
  return found && found.size <= 16 << 20 ? found.text() : null;
}

function verdict({ allowed, rule, place, why }) {
  const by = rule === null ? "no rule matches, and the default allows it" : `rule ${rule} is for it, and it proves what that demands`;
  return h("p", { class: allowed ? "verdict good" : "verdict bad", id: "policy-verdict" }, allowed ? `Allowed at ${place}: ${by}.` : why);
}
