"""``python -m prfaas_plan`` is the program ``prfaas-plan``."""

from prfaas_plan.cli import main

if __name__ == "__main__":
    main()
