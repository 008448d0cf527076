//! `--cast`, `--dequantize` and `--quantize`, as one list in the order of the command line.

use clap::{ArgMatches, Args, Command, FromArgMatches};
use modelfmt::convert::TypeRule;
use modelfmt::wording::ParseError;

use crate::flags::Flags;

/// The type rules, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RuleArgs(pub(crate) Vec<TypeRule>);

/// The options as clap knows them: each by itself.
#[derive(Debug, Args)]
struct RuleOptions {
    #[arg(long, value_name = "[GLOB=]DTYPE", help_heading = "Values", value_parser = parser(TypeRule::parse_cast))]
    cast: Vec<TypeRule>,
    #[arg(long, value_name = "[GLOB=]f32|f16|bf16", help_heading = "Values", value_parser = parser(TypeRule::parse_dequantize))]
    dequantize: Vec<TypeRule>,
    #[arg(long, value_name = "[GLOB=]TYPE|PRESET", help_heading = "Values", value_parser = parser(TypeRule::parse_quantize))]
    quantize: Vec<TypeRule>,
}

const IDS: [&str; 3] = ["cast", "dequantize", "quantize"];

/// Returns a parser whose errors name the options of the program.
fn parser(
    parse: fn(&str) -> Result<TypeRule, ParseError>,
) -> impl Fn(&str) -> Result<TypeRule, String> + Clone + Send + Sync + 'static {
    move |text| parse(text).map_err(|unknown| unknown.in_words(&Flags))
}

impl Args for RuleArgs {
    fn augment_args(command: Command) -> Command {
        RuleOptions::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        RuleOptions::augment_args_for_update(command)
    }
}

impl FromArgMatches for RuleArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let of_option = |id: &str| {
            let places = matches.indices_of(id).into_iter().flatten();
            let rules = matches.get_many::<TypeRule>(id).into_iter().flatten();
            places.zip(rules.cloned()).collect::<Vec<_>>()
        };
        let mut rules: Vec<(usize, TypeRule)> = IDS.into_iter().flat_map(of_option).collect();
        rules.sort_by_key(|(place, _)| *place);
        Ok(Self(rules.into_iter().map(|(_, rule)| rule).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
